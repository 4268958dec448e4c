//! Says which crates' types stand in the public API of ours, and fails for one that is not in the list: `scripts/hygiene.sh api`.

use std::path::Path;
use std::process::ExitCode;

use hier_layers::surface::{differences, foreign};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: public-types FOLDER, with the JSON that rustdoc wrote: scripts/hygiene.sh api");
        return ExitCode::from(2);
    };
    match check(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}\nwhat may be there stands in tests/layers/public_types.rs");
            ExitCode::FAILURE
        }
    }
}

fn check(folder: &Path) -> Result<(), String> {
    let mut lines = Vec::new();
    for (ours, allowed) in ALLOWED {
        let file = folder.join(ours).with_extension("json");
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut found = foreign(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        found.retain(|name, _| name != "hier" && !name.starts_with("hier_"));
        println!("{ours}: {}", found.keys().map(String::as_str).collect::<Vec<_>>().join(", "));
        lines.extend(differences(ours, &found, allowed));
    }
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
}

/// The published crates, and the foreign types that each has in its public API on purpose, with the reason: a new version of them that breaks
/// something is a new version of ours.
const ALLOWED: &[(&str, &[(&str, &str)])] = &[
    ("hier_spec", &[]),
    (
        "hier_state",
        &[
            ("schemars", "channels and answers have schemas"),
            ("serde_core", "states and answers are stored"),
            ("serde_json", "questions and dynamic states are JSON"),
        ],
    ),
    (
        "hier_core",
        &[
            ("async_trait", "savers, stores, models and tools are implemented with it"),
            ("futures_core", "`BoxFuture`, of the same"),
            ("schemars", "arguments of tools and answers have schemas"),
            ("schemars_derive", "the derive of the prelude"),
            ("serde_core", "states and answers are stored"),
            ("serde_derive", "the derives of the prelude"),
            ("serde_json", "payloads, arguments and dynamic states are JSON"),
            ("tokio_util", "`CancellationToken`, with which runs are cancelled"),
            ("uuid", "ids of checkpoints"),
        ],
    ),
    (
        "hier_checkpoint",
        &[
            ("async_trait", "savers and stores are implemented with it"),
            ("futures_core", "`BoxFuture`, of the same"),
            ("schemars", "messages have schemas"),
            ("serde_core", "records and messages are stored"),
            ("serde_json", "metadata and items are JSON"),
            ("uuid", "ids of checkpoints"),
        ],
    ),
    (
        "hier_runs",
        &[
            ("schemars", "options of runs have schemas"),
            ("serde_core", "rows are stored"),
            ("serde_json", "metadata, inputs and questions are JSON"),
            ("uuid", "ids of runs"),
        ],
    ),
    ("hier_draw", &[]),
    (
        "hier_agents",
        &[
            ("futures_core", "a model answers with a `Stream`"),
            ("schemars", "arguments of tools and answers have schemas"),
            ("serde_core", "states and answers are stored"),
            ("serde_json", "arguments of tools and answers are JSON"),
            ("uuid", "ids are text-free"),
        ],
    ),
    ("hier_worker", &[("tokio_util", "`CancellationToken`, with which a worker is stopped")]),
    ("hier_sqlite", &[("uuid", "ids of checkpoints")]),
    ("hier_postgres", &[("uuid", "ids of checkpoints")]),
    (
        "hier_models",
        &[
            ("aws_credential_types", "a program may bring its own credentials"),
            ("reqwest", "a program may bring its own client"),
        ],
    ),
    (
        "hier_mcp",
        &[
            ("axum", "the server is a router, which is put among others"),
            ("serde_core", "answers to questions of servers are read"),
            ("serde_json", "arguments and results of tools are JSON"),
            ("tokio", "a listener to serve on"),
            ("tokio_util", "`CancellationToken`"),
        ],
    ),
    (
        "hier_server",
        &[
            ("async_trait", "access rules are implemented with it"),
            ("axum", "the server is a router, and routes of users' own are added"),
            ("axum_core", "errors are responses"),
            ("http", "a request is judged by its head"),
            ("serde_json", "events and questions are JSON"),
            ("tokio_util", "`CancellationToken`"),
        ],
    ),
    (
        "hier_restate",
        &[
            ("serde_core", "questions are answered with values"),
            ("serde_json", "input and results are JSON"),
            ("tokio", "a listener to serve on"),
            ("uuid", "ids of checkpoints"),
        ],
    ),
    (
        "hier_testkit",
        &[
            ("serde_core", "fixtures of models are read"),
            ("serde_json", "expectations of a scenario are JSON"),
            ("uuid", "ids of checkpoints"),
        ],
    ),
    (
        "hier",
        &[
            ("schemars", "the derives generate its name"),
            ("schemars_derive", "the derive of the prelude"),
            ("serde", "the same"),
            ("serde_core", "the traits of the prelude"),
            ("serde_derive", "the derives of the prelude"),
        ],
    ),
];
