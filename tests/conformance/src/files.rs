//! Finds and reads scenario files.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hier_spec::nearest;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::check;
use super::hierarchy::Hierarchy;
use super::scenario::{Object, Scenario};

/// A scenario file with the answers that LangGraph gave.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) expect: Object,
}

/// The kind of a scenario: a graph, or a hierarchy of agents.
pub(crate) enum Kind {
    Graph(Scenario),
    Hierarchy(Hierarchy),
}

/// The problems of a file, one line each.
#[derive(Debug)]
pub(crate) struct Trouble {
    path: PathBuf,
    lines: Vec<String>,
}

impl Trouble {
    pub(crate) fn new(path: &Path, line: impl Into<String>) -> Self {
        Self { path: path.to_owned(), lines: vec![line.into()] }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "error: {}: {line}", self.path.display()))
    }
}

/// Finds the scenario files at this path: the file itself, or all `*.json` files in the folder, sorted by name.
pub(crate) fn find(path: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let trouble = |error: io::Error| Trouble::new(path, format!("cannot be read: {error}"));
    if !fs::metadata(path).map_err(trouble)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let trouble = |error: io::Error| Trouble::new(&folder, format!("cannot be read: {error}"));
        for entry in fs::read_dir(&folder).map_err(trouble)? {
            let entry = entry.map_err(trouble)?;
            // Links to folders are not followed, since they may lead back here.
            if entry.file_type().map_err(trouble)?.is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|extension| extension == "json") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Trouble::new(path, "there is no scenario in this folder: scenarios are `*.json` files"));
    }
    Ok(found)
}

/// Reads a scenario.
pub(crate) fn read(path: &Path) -> Result<File, Trouble> {
    let text = fs::read_to_string(path).map_err(|error| Trouble::new(path, format!("cannot be read: {error}")))?;
    decode(path, &text).map_err(|lines| Trouble { path: path.to_owned(), lines })
}

fn decode(path: &Path, text: &str) -> Result<File, Vec<String>> {
    let value = serde_json::from_str(text).map_err(|error| vec![format!("this is no JSON: {error}")])?;
    let Value::Object(mut object) = value else { return Err(vec!["a scenario must be a JSON object".to_owned()]) };
    let Some(Value::Object(expect)) = object.remove("expect") else {
        return Err(vec![
            "there is no object `expect`, what the reference did: add it with `python record.py FILE`".to_owned(),
        ]);
    };
    let name = match object.get("name") {
        Some(Value::String(name)) => name.clone(),
        _ => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let kind = match object.get("kind") {
        None => Kind::Graph(graph(object)?),
        Some(kind) if kind == "hierarchy" => Kind::Hierarchy(hierarchy(object)?),
        Some(kind) => return Err(vec![format!("at `kind`: {kind} is no kind: leave it out, or write \"hierarchy\"")]),
    };
    Ok(File { path: path.to_owned(), name, kind, expect })
}

/// The fields of a graph, and of a scenario.
const GRAPH: [&str; 6] = ["channels", "nodes", "edges", "branches", "interrupt_before", "interrupt_after"];
const SCENARIO: [&str; 10] = [
    "channels",
    "nodes",
    "edges",
    "branches",
    "name",
    "subgraphs",
    "checkpointer",
    "interrupt_before",
    "interrupt_after",
    "calls",
];

/// The fields of a hierarchy, and of one of its agents.
const HIERARCHY: [&str; 8] = ["name", "kind", "channels", "root", "agents", "script", "input", "recursion_limit"];
const AGENT: [&str; 13] = [
    "type",
    "description",
    "policy",
    "system",
    "reasoning",
    "tools",
    "max_iterations",
    "reports_to_supervisor",
    "report_into",
    "subagents",
    "front",
    "back",
    "compute",
];

fn hierarchy(object: Object) -> Result<Hierarchy, Vec<String>> {
    let mut mistakes = misspelt("", &object, &HIERARCHY);
    if let Some(Value::Object(agents)) = object.get("agents") {
        for (name, agent) in agents {
            let fields = agent.as_object().map(|agent| misspelt(&format!("agents.{name}."), agent, &AGENT));
            mistakes.extend(fields.into_iter().flatten());
        }
    }
    if let Some(scenario) = typed::<Hierarchy>(&Value::Object(object), &mut mistakes) {
        mistakes.extend(scenario.mistakes());
        if mistakes.is_empty() {
            return Ok(scenario);
        }
    }
    Err(mistakes)
}

fn graph(object: Object) -> Result<Scenario, Vec<String>> {
    let mut mistakes = misspelt("", &object, &SCENARIO);
    if let Some(Value::Object(subgraphs)) = object.get("subgraphs") {
        for (name, graph) in subgraphs {
            let fields = graph.as_object().map(|graph| misspelt(&format!("subgraphs.{name}."), graph, &GRAPH));
            mistakes.extend(fields.into_iter().flatten());
        }
    }
    let value = Value::Object(object);
    let (root, settings) = (typed(&value, &mut mistakes), typed(&value, &mut mistakes));
    if let (Some(root), Some(settings)) = (root, settings) {
        let scenario = Scenario { root, settings };
        mistakes.extend(check::check(&scenario));
        if mistakes.is_empty() {
            return Ok(scenario);
        }
    }
    Err(mistakes)
}

/// Reports unknown fields whose names are close to a known one. Other unknown fields are the author's notes.
fn misspelt(at: &str, object: &Object, known: &[&str]) -> Vec<String> {
    let unknown = object.keys().filter(|field| !known.contains(&field.as_str()));
    let near = unknown.filter_map(|field| Some((field, nearest(field, known.iter().copied())?)));
    near.map(|(field, known)| format!("at `{at}{field}`: there is no such field; did you mean `{known}`?")).collect()
}

/// Deserializes a part of a scenario. On failure, adds a line to `mistakes` and returns `None`.
fn typed<T: DeserializeOwned>(value: &Value, mistakes: &mut Vec<String>) -> Option<T> {
    let part = serde_path_to_error::deserialize(value);
    part.map_err(|error| match error.path().to_string().as_str() {
        "." => mistakes.push(error.inner().to_string()),
        path => mistakes.push(format!("at `{path}`: {}", error.inner())),
    })
    .ok()
}
