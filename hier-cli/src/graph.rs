//! `hier graph`: draws the graphs that a program declares.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueEnum};
use serde::Deserialize;

/// What programs are called with.
const REQUEST: &str = hier_draw::REQUEST;

/// The arguments of `hier graph`.
#[derive(Args, Debug)]
pub struct Graph {
    /// The graph; may be left out where there is one.
    pub graph: Option<String>,
    /// In which form.
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    pub format: Format,
    /// Lists the names of the graphs instead.
    #[arg(long)]
    pub list: bool,
    /// The program, where the package has several.
    #[arg(long, value_name = "NAME")]
    pub bin: Option<String>,
    /// The example of the package that declares them, instead of a program.
    #[arg(long, value_name = "NAME", conflicts_with = "bin")]
    pub example: Option<String>,
    /// The package, where the workspace has several.
    #[arg(long, short, value_name = "NAME")]
    pub package: Option<String>,
    /// The manifest of the package or workspace; that of this folder unless given.
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<PathBuf>,
}

/// A form of drawings.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// A Mermaid flowchart.
    Mermaid,
    /// The language of Graphviz.
    Dot,
    /// A picture.
    Svg,
}

/// Why nothing was drawn.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cargo could not be started.
    #[error("cargo could not be started: {0}")]
    NoCargo(io::Error),
    /// Cargo does not know the package, or it does not compile: cargo has said why.
    #[error("`{0}` failed")]
    Cargo(String),
    /// There is no such program, or several to choose from.
    #[error("{0}")]
    Choose(String),
    /// The program does not answer.
    #[error(
        "`{0}` does not show its graphs: put `hier::graph::draw::on_request(&[MyGraph::SPEC]);` first in its `main`"
    )]
    NoAnswer(String),
    /// The result could not be written.
    #[error("the drawing could not be written: {0}")]
    Write(io::Error),
}

/// A graph as a program shows it.
#[derive(Deserialize)]
struct Drawn {
    name: String,
    mermaid: String,
    dot: String,
    svg: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_default_members: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
    src_path: PathBuf,
}

/// Draws.
pub fn run(arguments: &Graph, out: &mut dyn Write) -> Result<(), Error> {
    let (package, target) = chosen(arguments)?;
    // A program that does not know the argument would do what it does, whatever that is: so it is not started.
    if !asks_to_be_drawn(&target.src_path) {
        return Err(Error::NoAnswer(target.name));
    }
    let graphs = shown(arguments, &package, &target)?;
    let names = || graphs.iter().map(|graph| &*graph.name);
    if arguments.list {
        return names().try_for_each(|name| writeln!(out, "{name}")).map_err(Error::Write);
    }
    let list = || names().collect::<Vec<_>>().join("`, `");
    let graph = match (&arguments.graph, &graphs[..]) {
        (Some(name), _) => graphs.iter().find(|graph| graph.name == *name).ok_or_else(|| {
            Error::Choose(format!("there is no graph `{name}`{}", hier_spec::did_you_mean(name, names())))
        })?,
        (None, [graph]) => graph,
        (None, []) => return Err(Error::NoAnswer(target.name)),
        (None, _) => return Err(Error::Choose(format!("there are several graphs, name one: `{}`", list()))),
    };
    let text = match arguments.format {
        Format::Mermaid => &graph.mermaid,
        Format::Dot => &graph.dot,
        Format::Svg => &graph.svg,
    };
    writeln!(out, "{}", text.trim_end()).map_err(Error::Write)
}

/// The program that declares the graphs, and its package.
fn chosen(arguments: &Graph) -> Result<(String, Target), Error> {
    let output = cargo(arguments, &["metadata", "--no-deps", "--format-version=1"])?;
    let metadata: Metadata =
        serde_json::from_slice(&output).map_err(|error| Error::Choose(format!("cargo's metadata: {error}")))?;
    let (kind, name) = match &arguments.example {
        Some(example) => ("example", Some(example)),
        None => ("bin", arguments.bin.as_ref()),
    };
    let mut found = Vec::new();
    for Package { id, name: package, targets } in metadata.packages {
        let wanted = match &arguments.package {
            Some(wanted) => package == *wanted,
            None => metadata.workspace_default_members.contains(&id),
        };
        let targets = targets.into_iter().filter(|target| wanted && target.kind.iter().any(|it| it == kind));
        found.extend(
            targets
                .filter(|target| name.is_none_or(|name| target.name == *name))
                .map(|target| (package.clone(), target)),
        );
    }
    if found.len() > 1 {
        // One of several shows its graphs: that is the one.
        found.retain(|(_, target)| asks_to_be_drawn(&target.src_path));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::Choose(format!(
            "there is no such program here that shows its graphs: go to the folder of its package, or say `--{kind}`, \
             `--package` or `--manifest-path`"
        ))),
        _ => {
            let names: Vec<_> = found.iter().map(|(package, target)| format!("{} ({package})", target.name)).collect();
            Err(Error::Choose(format!("there are several programs, name one with `--{kind}`: {}", names.join(", "))))
        }
    }
}

/// Whether a program's main file, or one beside it, names the function that answers.
fn asks_to_be_drawn(main: &Path) -> bool {
    let named = |path: &Path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("on_request("));
    named(main)
        || main.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten().any(|entry| {
            let path = entry.path();
            path.extension().is_some_and(|extension| extension == "rs") && named(&path)
        })
}

/// Asks the program for its graphs.
fn shown(arguments: &Graph, package: &str, target: &Target) -> Result<Vec<Drawn>, Error> {
    let kind = if arguments.example.is_some() { "--example" } else { "--bin" };
    let output = cargo(arguments, &["run", "--quiet", "--package", package, kind, &target.name, "--", REQUEST])?;
    serde_json::from_slice(&output).map_err(|_| Error::NoAnswer(target.name.clone()))
}

/// Runs cargo, whose messages and progress are shown, and returns what it or the program printed.
fn cargo(arguments: &Graph, words: &[&str]) -> Result<Vec<u8>, Error> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let (own, program) = words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
    command.args(own);
    if let Some(path) = &arguments.manifest_path {
        command.arg("--manifest-path").arg(path);
    }
    command.args(program).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(Error::NoCargo)?;
    if output.status.success() { Ok(output.stdout) } else { Err(Error::Cargo(format!("cargo {}", words.join(" ")))) }
}
