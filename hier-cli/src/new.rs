//! `hier new`: makes a project that runs.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

/// The arguments of `hier new`.
#[derive(Args, Debug)]
pub struct New {
    /// The folder of the project; its last part is the project's name.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// What it is.
    #[arg(long, value_enum, default_value_t = Kind::Graph)]
    pub kind: Kind,
    /// Depends on the checkout of hier in this folder. Defaults to the checkout that this command was built in; a command from the registry
    /// depends on its own version.
    #[arg(long, value_name = "FOLDER")]
    pub path: Option<PathBuf>,
    /// Depends on hier in this Git repository.
    #[arg(long, value_name = "URL", conflicts_with = "path")]
    pub git: Option<String>,
}

/// What a project is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A state graph that asks a person.
    Graph,
    /// A chat agent with a tool.
    Agent,
    /// The same as a service.
    Server,
}

/// Why no project was made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is none that a package can have.
    #[error("`{0}` is no name of a package: use letters, digits, `_` and `-`, and begin with a letter")]
    Name(String),
    /// The name is one that the project's own code needs for something else.
    #[error("no package can be called `{0}` here: its name would hide a crate or a word of Rust; choose another")]
    Hides(String),
    /// Something is there already.
    #[error("`{0}` is there already and is not empty: give another folder")]
    Taken(PathBuf),
    /// A file is there.
    #[error("`{0}` is a file: give a folder, which may be empty or not be there")]
    File(PathBuf),
    /// The folder of `--path` is no checkout.
    #[error("`{0}` is no checkout of hier: it has no `hier/Cargo.toml`")]
    NoCheckout(PathBuf),
    /// A file could not be written.
    #[error("cannot write `{0}`: {1}: give a folder that you may write to")]
    Write(PathBuf, io::Error),
}

/// A file of a project: where it stands, and its text, in which `{{name}}` and `{{crate}}` are filled in.
type File = (&'static str, &'static str);

macro_rules! template {
    ($($place:literal),*) => { &[$(($place, include_str!(concat!("../templates/", $place)))),*] };
}

const GRAPH: &[File] = template!["graph/README.md", "graph/src/lib.rs", "graph/src/main.rs", "graph/tests/graph.rs"];
const AGENT: &[File] = template![
    "agent/README.md",
    "agent/src/lib.rs",
    "agent/src/stand_in.rs",
    "agent/src/main.rs",
    "agent/tests/agent.rs"
];
/// What a server has of its own; the rest is the agent's.
const SERVER: &[File] = template!["server/README.md", "server/Dockerfile", "server/src/main.rs"];
const IGNORED: &str = include_str!("../templates/gitignore");

impl Kind {
    /// Its files, each with its place in the project; of two for one place the later one counts.
    fn files(self) -> impl Iterator<Item = File> {
        let parts: &[&[File]] = match self {
            Self::Graph => &[GRAPH],
            Self::Agent => &[AGENT],
            Self::Server => &[AGENT, SERVER],
        };
        let files = parts.iter().copied().flatten();
        files.map(|(place, text)| (place.split_once('/').map_or(*place, |(_, place)| place), *text))
    }

    /// What it needs of hier.
    fn features(self) -> &'static [&'static str] {
        match self {
            Self::Graph => &[],
            Self::Agent => &["models", "sqlite"],
            Self::Server => &["models", "server", "sqlite"],
        }
    }
}

/// Makes the project, and says on `out` what to do next.
pub fn run(arguments: &New, out: &mut dyn Write) -> Result<(), Error> {
    let New { folder, kind, path, git } = arguments;
    let name = name(folder)?;
    let source = match (path, git) {
        (Some(path), _) => in_checkout(&checkout(path).ok_or_else(|| Error::NoCheckout(path.clone()))?),
        (None, Some(git)) => format!("git = {git:?}"),
        (None, None) => own_source(Path::new(env!("CARGO_MANIFEST_DIR"))),
    };
    if folder.is_file() {
        return Err(Error::File(folder.clone()));
    }
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::Taken(folder.clone()));
    }
    write(folder, "Cargo.toml", &(manifest(&name, *kind, &source) + apart(folder)))?;
    write(folder, ".gitignore", IGNORED)?;
    if *kind == Kind::Server {
        write(folder, ".dockerignore", &format!("/.git\n{IGNORED}"))?;
    }
    for (place, text) in kind.files() {
        let text = text.replace("{{name}}", &name).replace("{{crate}}", &name.replace('-', "_"));
        write(folder, place, &text)?;
    }
    let told = writeln!(out, "made `{}`: go there, then `cargo run`, `cargo test`, `hier graph`", folder.display());
    told.map_err(|error| Error::Write(folder.clone(), error))
}

/// Names that are taken where the project is compiled: by the crates that it uses, and by the language.
const HIDDEN: &[&str] = &[
    "alloc",
    "as",
    "async",
    "await",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "fn",
    "for",
    "gen",
    "hier",
    "hier-graph",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "serde-json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "trait",
    "true",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
    "yield",
];

/// The name of the project in this folder, also of `.`.
fn name(folder: &Path) -> Result<String, Error> {
    let whole = if folder.file_name().is_some() { None } else { folder.canonicalize().ok() };
    let name = whole.as_deref().unwrap_or(folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) || !name.chars().all(fits) {
        return Err(Error::Name(name));
    }
    if HIDDEN.contains(&&*name.replace('_', "-")) {
        return Err(Error::Hides(name));
    }
    Ok(name)
}

/// The folder of the crate `hier` in a checkout.
fn checkout(path: &Path) -> Option<PathBuf> {
    let hier = path.join("hier");
    hier.join("Cargo.toml").is_file().then(|| hier.canonicalize().ok()).flatten()
}

/// The checkout that this command was built in, or its version if it was built from the registry.
fn own_source(built_in: &Path) -> String {
    let in_repository = built_in.parent().and_then(checkout).map(|hier| in_checkout(&hier));
    in_repository.unwrap_or_else(|| format!("version = {:?}", env!("CARGO_PKG_VERSION")))
}

fn in_checkout(hier: &Path) -> String {
    format!("path = {:?}", hier.display().to_string())
}

fn manifest(name: &str, kind: Kind, source: &str) -> String {
    let list = |features: &[&str]| features.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", ");
    let features = list(kind.features());
    let json = if kind == Kind::Graph { "" } else { "serde_json = \"1\"\n" };
    let allocator = if kind == Kind::Server {
        "# A server does about a fifth more with it than with glibc's allocator.\n\
         mimalloc = { version = \"0.1\", default-features = false, features = [\"no_thp\"] }\n"
    } else {
        ""
    };
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
publish = false

[dependencies]
# Features: sqlite and postgres (threads that outlive the process), models, server, testing, …
hier-graph = {{ {source}, default-features = false, features = [{features}] }}
{allocator}serde = {{ version = "1", features = ["derive"] }}
{json}tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[dev-dependencies]
hier-graph = {{ {source}, default-features = false, features = ["testing"] }}

# Backtraces have their lines, and a build takes a fraction of the time and space.
[profile.dev]
debug = "line-tables-only"
"#
    )
}

/// What keeps a project within the folder of a workspace out of it: Cargo would take it for a member that is not listed.
fn apart(folder: &Path) -> &'static str {
    let begins = |line: &str| line.trim_start().starts_with("[workspace");
    let is_workspace =
        |above: &Path| fs::read_to_string(above.join("Cargo.toml")).is_ok_and(|text| text.lines().any(begins));
    match std::path::absolute(folder) {
        Ok(whole) if whole.ancestors().skip(1).any(is_workspace) => {
            "\n# It stands in the folder of a workspace: a member would be listed there, and have no line like this.\n[workspace]\n"
        }
        _ => "",
    }
}

fn write(folder: &Path, place: &str, text: &str) -> Result<(), Error> {
    let path = folder.join(place);
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
    written.map_err(|error| Error::Write(path, error))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::own_source;

    #[test]
    fn a_command_from_the_registry_depends_on_its_version() {
        let registry = std::env::temp_dir().join("registry/hier-cli-0.1.0");
        assert_eq!(own_source(&registry), format!("version = {:?}", env!("CARGO_PKG_VERSION")));
        assert!(own_source(Path::new(env!("CARGO_MANIFEST_DIR"))).starts_with("path = "));
    }
}
