//! `hier graph`: draws the graphs that a program declares.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::project::{CargoError, CargoTarget, PackageTarget, folder_contains, run_cargo, targets};

/// The argument that makes a program print its graphs.
const REQUEST: &str = hier_draw::REQUEST;

/// The arguments of `hier graph`.
#[derive(Args, Debug)]
pub struct GraphArgs {
    /// Name of the graph. Optional if there is only one.
    pub graph: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    pub format: Format,
    /// Lists the names of the graphs.
    #[arg(long)]
    pub list: bool,
    /// Name of the program. Required if several programs declare graphs.
    #[arg(long, value_name = "NAME")]
    pub bin: Option<String>,
    /// Name of an example that declares the graphs. Replaces `--bin`.
    #[arg(long, value_name = "NAME", conflicts_with = "bin")]
    pub example: Option<String>,
    /// Name of the package that contains the program. Defaults to the packages that cargo selects for the manifest.
    #[arg(long, short, value_name = "NAME")]
    pub package: Option<String>,
    /// Manifest of the package or workspace. Defaults to `Cargo.toml` in the current folder or a folder above it.
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<PathBuf>,
}

/// An output format.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// A Mermaid flowchart.
    Mermaid,
    /// Text in the DOT language of Graphviz.
    Dot,
    /// An SVG image.
    Svg,
}

/// The error of `hier graph`.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// A call of cargo failed.
    #[error(transparent)]
    Cargo(#[from] CargoError),
    /// No program or graph matches the arguments, or several match.
    #[error("{0}")]
    Choose(String),
    /// The program does not print its graphs.
    #[error(
        "the program `{0}` does not print its graphs: begin the function `main` with `hier::graph::draw::on_request(&[MyGraph::SPEC]);`"
    )]
    NoAnswer(String),
    /// The command could not write the drawing.
    #[error("cannot write the drawing: {0}")]
    Write(io::Error),
}

/// A graph in all formats, as a program prints it.
#[derive(Deserialize)]
struct Drawn {
    name: String,
    mermaid: String,
    dot: String,
    svg: String,
}

/// Writes the drawing of a graph to `out`. With the option `list`, writes the names of the graphs instead.
pub fn print_graph(arguments: &GraphArgs, out: &mut dyn Write) -> Result<(), DrawError> {
    let (package, target) = find_program(arguments)?;
    // A program that does not know the argument would run normally, so it is not started.
    if !asks_to_be_drawn(&target.src_path) {
        return Err(DrawError::NoAnswer(target.name));
    }
    let graphs = read_graphs(arguments, &package, &target)?;
    let names = || graphs.iter().map(|graph| &*graph.name);
    if arguments.list {
        return names().try_for_each(|name| writeln!(out, "{name}")).map_err(DrawError::Write);
    }
    let list = || names().collect::<Vec<_>>().join("`, `");
    let graph = match (&arguments.graph, &graphs[..]) {
        (Some(name), _) => graphs.iter().find(|graph| graph.name == *name).ok_or_else(|| {
            DrawError::Choose(format!("no graph named `{name}`{}", hier_spec::did_you_mean(name, names())))
        })?,
        (None, [graph]) => graph,
        (None, []) => return Err(DrawError::NoAnswer(target.name)),
        (None, _) => {
            return Err(DrawError::Choose(format!("the program has several graphs: choose one of `{}`", list())));
        }
    };
    let text = match arguments.format {
        Format::Mermaid => &graph.mermaid,
        Format::Dot => &graph.dot,
        Format::Svg => &graph.svg,
    };
    writeln!(out, "{}", text.trim_end()).map_err(DrawError::Write)
}

/// Returns the program that declares the graphs, and its package.
fn find_program(arguments: &GraphArgs) -> Result<(String, CargoTarget), DrawError> {
    let (kind, name) = match &arguments.example {
        Some(example) => ("example", Some(example)),
        None => ("bin", arguments.bin.as_ref()),
    };
    let all = targets(arguments.manifest_path.as_deref(), arguments.package.as_deref())?;
    let is_wanted = |target: &CargoTarget| target.is(kind) && name.is_none_or(|name| target.name == *name);
    let wanted = all.into_iter().filter(|found| is_wanted(&found.target));
    let mut found: Vec<_> = wanted.map(|PackageTarget { package, target, .. }| (package, target)).collect();
    if found.len() > 1 {
        // If exactly one of the programs prints its graphs, the command selects this program.
        found.retain(|(_, target)| asks_to_be_drawn(&target.src_path));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(DrawError::Choose(format!(
            "no program that prints its graphs was found: go to the folder of the package, or add `--{kind}`, `--package` or \
             `--manifest-path`"
        ))),
        _ => {
            let names: Vec<_> = found.iter().map(|(package, target)| format!("{} ({package})", target.name)).collect();
            Err(DrawError::Choose(format!(
                "several programs print graphs: choose one with `--{kind}`: {}",
                names.join(", ")
            )))
        }
    }
}

/// Returns true if a program calls the function that prints its graphs.
fn asks_to_be_drawn(main: &Path) -> bool {
    folder_contains(main, "on_request(")
}

fn read_graphs(arguments: &GraphArgs, package: &str, target: &CargoTarget) -> Result<Vec<Drawn>, DrawError> {
    let kind = if arguments.example.is_some() { "--example" } else { "--bin" };
    let words = ["run", "--quiet", "--package", package, kind, &target.name, "--", REQUEST];
    let output = run_cargo(arguments.manifest_path.as_deref(), &words, None)?;
    serde_json::from_slice(&output).map_err(|_| DrawError::NoAnswer(target.name.clone()))
}
