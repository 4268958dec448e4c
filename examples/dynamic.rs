//! A graph that is built at run time, from a JSON file: channels, nodes, edges and routes are data.
//!
//! `GraphBuilder` makes the checks of `graph!` at run time and returns all mistakes at once.
//! The state is a `DynState`: JSON values in channels with names, with the same reducers and the same engine.
//!
//! Look at `data/headlines.json` and its run, then at the wrong files next to it and their errors.
//!
//! Run it: `cargo run --example dynamic`, or with your own files: `… -- my_graph.json`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hier::graph::{CompiledGraph, EdgeEnd, GraphBuilder, Task};
use hier::prelude::*;
use hier::state::{Builtin, DynState, Schema};
use hier::{Event, Result};
use serde_json::{Value, json};

/// The contents of a file. Serde refuses unknown fields and names their place and the known ones.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    /// The reducer of each channel, or `last`.
    channels: BTreeMap<String, String>,
    nodes: Vec<Node>,
    edges: Vec<(String, String)>,
    #[serde(default)]
    routes: Vec<Route>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    name: String,
    #[serde(rename = "do")]
    work: Work,
    from: String,
    to: String,
}

/// The operation of a node on a text.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    Trim,
    Uppercase,
    DropLastWord,
    RateLength,
    Note,
}

/// Continues at the node that a channel's value selects.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Route {
    from: String,
    on: String,
    arms: BTreeMap<String, Vec<String>>,
}

impl Work {
    fn apply(self, text: &str) -> Value {
        match self {
            Self::Trim => json!(text.trim()),
            Self::Uppercase => json!(text.to_uppercase()),
            Self::DropLastWord => json!(text.trim_end().rsplit_once(' ').map_or("", |(rest, _)| rest)),
            Self::RateLength => json!(match text.chars().count() {
                0 => "empty",
                1..=24 => "fits",
                _ => "too long",
            }),
            Self::Note => json!([text]),
        }
    }
}

/// Builds the graph of a file, or returns all of its mistakes.
fn build(file: File) -> Result<CompiledGraph<DynState>, Vec<String>> {
    let mut mistakes = Vec::new();
    let mut schema = Schema::new();
    for (name, kind) in &file.channels {
        schema = match (&**kind, Builtin::named(kind)) {
            ("last", _) => schema.last(name),
            (_, Ok(reducer)) => schema.reduced(name, reducer),
            (_, Err(error)) => {
                mistakes.push(format!("{error} (channel `{name}`; write `last` for no reducer)"));
                schema.last(name)
            }
        };
    }
    let mut graph: GraphBuilder<DynState> = GraphBuilder::dynamic(file.name, schema.clone());
    for node in file.nodes {
        if schema.find(&node.from).is_none() {
            mistakes.push(format!("`{}` reads `{}`, which is not a channel", node.name, node.from));
        }
        let (name, to) = (node.name.clone(), node.to.clone());
        graph = graph.node(&name, move |task: Task<DynState>| {
            let node = node.clone();
            async move {
                let text = task.state().get(&node.from).and_then(Value::as_str).unwrap_or_default();
                task.state().update(json!({ node.to: node.work.apply(text) }))
            }
        });
        // It has no commands and writes this channel. The builder checks parallel writers with that.
        graph = graph.goto::<&str>(&name, []).writes(&name, [&*to]);
    }
    for (from, to) in &file.edges {
        graph = graph.edge(place(from), place(to));
    }
    for Route { from, on, arms } in file.routes {
        let arms = arms.into_iter().map(|(arm, to)| (arm, to.iter().map(|to| place(to)).collect::<Vec<_>>()));
        graph = graph.route(place(&from), on.clone(), arms, move |state| {
            state.get(&on).and_then(Value::as_str).unwrap_or_default().to_owned()
        });
    }
    match graph.compile() {
        Ok(graph) if mistakes.is_empty() => Ok(graph),
        Ok(_) => Err(mistakes),
        Err(error) => Err([mistakes, error.mistakes].concat()),
    }
}

fn place(name: &str) -> EdgeEnd {
    match name {
        "START" => START.into(),
        "END" => END.into(),
        node => node.into(),
    }
}

/// Loads the graph of a file, or returns its mistakes with their lines.
fn load(path: &Path) -> Result<CompiledGraph<DynState>, Vec<String>> {
    let text = std::fs::read_to_string(path).map_err(|error| vec![error.to_string()])?;
    let file = serde_json::from_str(&text).map_err(|error| vec![error.to_string()])?;
    // A mistake has names in backticks. The name that is rarest in the file is the misspelt one.
    let locate = |mistake: &String| {
        let quoted = |name: &str| format!("\"{name}\"");
        let named = mistake.split('`').skip(1).step_by(2).filter(|name| text.contains(&quoted(name)));
        let Some(name) = named.min_by_key(|name| text.matches(&quoted(name)).count()) else { return mistake.clone() };
        let line = text.lines().take_while(|line| !line.contains(&quoted(name))).count() + 1;
        format!("line {line}: {mistake}")
    };
    build(file).map_err(|mistakes| mistakes.iter().map(locate).collect())
}

#[tokio::main]
async fn main() -> Result<()> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        paths = ["headlines", "wrong_names", "wrong_shape", "wrong_field"]
            .map(|name| data.join(name).with_extension("json"))
            .into();
    }
    for path in paths {
        println!("{}", path.strip_prefix(&data).unwrap_or(&path).display());
        match load(&path) {
            Ok(graph) => run(&graph).await?,
            Err(mistakes) => mistakes.iter().for_each(|mistake| println!("  {mistake}")),
        }
        println!();
    }
    Ok(())
}

async fn run(graph: &CompiledGraph<DynState>) -> Result<()> {
    for title in ["  rust is fast ", "the compiler has checked the whole graph", " "] {
        let input = graph.update(json!({ "title": title }))?;
        let mut events = graph.stream(input).modes([StreamMode::Updates]);
        let mut path = Vec::new();
        while let Some(event) = events.next().await {
            if let Event::Updates(done) = event? {
                path.push(done.node);
            }
        }
        println!("  {}\n  {}\n", path.join(" → "), events.outcome().await?.state().to_value());
    }
    Ok(())
}
