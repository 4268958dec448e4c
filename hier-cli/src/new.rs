//! `hier new`: creates a project.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

/// The arguments of `hier new`.
#[derive(Args, Debug)]
pub struct NewArgs {
    /// Folder of the project. The last part of the path is the name of the project.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Kind of the project.
    #[arg(long, value_enum, default_value_t = ProjectKind::Graph)]
    pub kind: ProjectKind,
    /// Uses hier from the checkout in this folder. By default, the project uses hier from the same place as this
    /// command: the checkout in which the command was built, or the registry.
    #[arg(long, value_name = "FOLDER")]
    pub path: Option<PathBuf>,
    /// Uses hier from this Git repository.
    #[arg(long, value_name = "URL", conflicts_with = "path")]
    pub git: Option<String>,
}

/// A kind of project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProjectKind {
    /// A state graph that asks a person a question.
    Graph,
    /// A chat agent with a tool.
    Agent,
    /// A chat agent that a server serves over HTTP.
    Server,
}

/// The error of `hier new`.
#[derive(Debug, thiserror::Error)]
pub enum NewProjectError {
    /// The name is not a valid package name.
    #[error("`{0}` is not a valid package name: use letters, digits, `_` and `-`, and begin with a letter")]
    Name(String),
    /// The name is not available. It is the name of a crate or keyword that the project's code uses, or of a folder
    /// that Cargo uses.
    #[error("a project cannot be named `{0}`, which is a crate, a keyword or a folder of Cargo: choose another name")]
    Hides(String),
    /// The folder is not empty.
    #[error("`{0}` exists and is not empty: choose another folder")]
    Taken(PathBuf),
    /// The folder is a file.
    #[error("`{0}` is a file: choose an empty or new folder")]
    File(PathBuf),
    /// The folder that `--path` names is not a checkout of hier.
    #[error(
        "`{0}` is not a checkout of hier: it has no `hier/Cargo.toml`; give the folder of a clone, or omit `--path`"
    )]
    NoCheckout(PathBuf),
    /// The command could not write a file. It has removed the files that it had written before.
    #[error("cannot write `{0}`: {1}: choose a folder that you may write to, on a disk with free space")]
    Write(PathBuf, io::Error),
    /// The command created the project, but could not write to its output.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

/// A file of a project: its path and its text. The command replaces `{{name}}` and `{{crate}}` in the text.
type Template = (&'static str, &'static str);

macro_rules! template {
    ($($place:literal),*) => { &[$(($place, include_str!(concat!("../templates/", $place)))),*] };
}

const GRAPH: &[Template] =
    template!["graph/README.md", "graph/src/lib.rs", "graph/src/main.rs", "graph/tests/graph.rs"];
const AGENT: &[Template] = template![
    "agent/README.md",
    "agent/src/lib.rs",
    "agent/src/fake_model.rs",
    "agent/src/main.rs",
    "agent/tests/agent.rs"
];
/// The files of a server in addition to those of the agent. A file replaces the agent's file with the same path.
const SERVER: &[Template] = template!["server/README.md", "server/Dockerfile", "server/src/main.rs"];
const IGNORED: &str = include_str!("../templates/gitignore");

impl ProjectKind {
    /// Returns the files with their paths in the project. A later file replaces an earlier one with the same path.
    fn files(self) -> impl Iterator<Item = Template> {
        let parts: &[&[Template]] = match self {
            Self::Graph => &[GRAPH],
            Self::Agent => &[AGENT],
            Self::Server => &[AGENT, SERVER],
        };
        let files = parts.iter().copied().flatten();
        files.map(|(place, text)| (place.split_once('/').map_or(*place, |(_, place)| place), *text))
    }

    /// Returns the features of hier that the project needs.
    fn features(self) -> &'static [&'static str] {
        match self {
            Self::Graph => &[],
            Self::Agent => &["models", "sqlite"],
            Self::Server => &["models", "server", "sqlite"],
        }
    }
}

/// Creates the files of the project, and writes the next commands for the user to `out`.
pub fn create_project(arguments: &NewArgs, out: &mut dyn Write) -> Result<(), NewProjectError> {
    let NewArgs { folder, kind, path, git } = arguments;
    let name = name(folder)?;
    let source = match (path, git) {
        (Some(path), _) => in_checkout(&checkout(path).ok_or_else(|| NewProjectError::NoCheckout(path.clone()))?),
        (None, Some(git)) => format!("git = {git:?}"),
        (None, None) => own_source(Path::new(env!("CARGO_MANIFEST_DIR"))),
    };
    if folder.is_file() {
        return Err(NewProjectError::File(folder.clone()));
    }
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(NewProjectError::Taken(folder.clone()));
    }
    let fill = |text: &str| text.replace("{{name}}", &name).replace("{{crate}}", &name.replace('-', "_"));
    let mut files = vec![
        ("Cargo.toml", manifest(&name, *kind, &source) + own_workspace(folder)),
        (".gitignore", IGNORED.to_owned()),
    ];
    if *kind == ProjectKind::Server {
        files.push((".dockerignore", format!("/.git\n{IGNORED}")));
    }
    for (place, text) in kind.files() {
        files.retain(|(known, _)| *known != place);
        files.push((place, fill(text)));
    }
    NewFiles::default().write_all(folder, &files)?;
    writeln!(out, "created `{}`: go there, then `cargo run`, `cargo test`, `hier graph`", folder.display())
        .map_err(NewProjectError::Output)
}

/// The names that a project cannot have: the crates that its code uses, the keywords of the language (also reserved
/// ones), and the folders into which Cargo builds.
const HIDDEN: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "hier",
    "hier-graph",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mimalloc",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "Self",
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
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Returns the name of the project in this folder. The folder may be `.`.
fn name(folder: &Path) -> Result<String, NewProjectError> {
    let whole = if folder.file_name().is_some() { None } else { folder.canonicalize().ok() };
    let name = whole.as_deref().unwrap_or(folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) || !name.chars().all(fits) {
        return Err(NewProjectError::Name(name));
    }
    if HIDDEN.contains(&&*name.replace('_', "-")) {
        return Err(NewProjectError::Hides(name));
    }
    Ok(name)
}

/// Returns the folder of the crate `hier` in a checkout.
fn checkout(path: &Path) -> Option<PathBuf> {
    let hier = path.join("hier");
    hier.join("Cargo.toml").is_file().then(|| hier.canonicalize().ok()).flatten()
}

/// Returns the checkout in which this command was built, or the version of this command if it comes from the registry.
fn own_source(built_in: &Path) -> String {
    let in_repository = built_in.parent().and_then(checkout).map(|hier| in_checkout(&hier));
    in_repository.unwrap_or_else(|| format!("version = {:?}", env!("CARGO_PKG_VERSION")))
}

fn in_checkout(hier: &Path) -> String {
    format!("path = {:?}", hier.display().to_string())
}

fn manifest(name: &str, kind: ProjectKind, source: &str) -> String {
    let list = |features: &[&str]| features.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", ");
    let features = list(kind.features());
    let json = if kind == ProjectKind::Graph { "" } else { "serde_json = \"1\"\n" };
    let allocator = if kind == ProjectKind::Server {
        "# Increases the throughput of a server by about a fifth, compared with glibc's allocator.\n\
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
# Features: sqlite and postgres (threads that survive restarts), models, server, testing, …
hier-graph = {{ {source}, default-features = false, features = [{features}] }}
{allocator}serde = {{ version = "1", features = ["derive"] }}
{json}tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[dev-dependencies]
hier-graph = {{ {source}, default-features = false, features = ["testing"] }}

# Backtraces keep their line numbers, and builds take a fraction of the time and space.
[profile.dev]
debug = "line-tables-only"
"#
    )
}

/// Returns the lines of `Cargo.toml` that exclude the project from a workspace around its folder. Without them, Cargo
/// would require that the workspace lists the project.
fn own_workspace(folder: &Path) -> &'static str {
    let begins = |line: &str| line.trim_start().starts_with("[workspace");
    let is_workspace =
        |above: &Path| fs::read_to_string(above.join("Cargo.toml")).is_ok_and(|text| text.lines().any(begins));
    match std::path::absolute(folder) {
        Ok(whole) if whole.ancestors().skip(1).any(is_workspace) => {
            "\n# The folder is within another workspace. To make the project a member of that one, list it there and delete this.\n[workspace]\n"
        }
        _ => "",
    }
}

/// The files and folders that this command has created, which it removes if it fails.
#[derive(Default)]
struct NewFiles(Vec<PathBuf>);

impl NewFiles {
    fn write_all(mut self, folder: &Path, files: &[(&str, String)]) -> Result<(), NewProjectError> {
        for (place, text) in files {
            let path = folder.join(place);
            if let Err(error) = self.write(&path, text) {
                self.remove();
                return Err(NewProjectError::Write(path, error));
            }
        }
        Ok(())
    }

    /// Writes a file. Never replaces an existing file, which a folder that cannot be listed may contain.
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            self.create_folder(folder)?;
        }
        let mut file = File::create_new(path)?;
        self.0.push(path.to_owned());
        file.write_all(text.as_bytes())
    }

    fn create_folder(&mut self, folder: &Path) -> io::Result<()> {
        if folder.as_os_str().is_empty() || folder.is_dir() {
            return Ok(());
        }
        if let Some(outer) = folder.parent() {
            self.create_folder(outer)?;
        }
        match fs::create_dir(folder) {
            // The path is, for example, `a/..`, and the folder `a` was missing before.
            Err(_) if folder.is_dir() => Ok(()),
            created => created.map(|()| self.0.push(folder.to_owned())),
        }
    }

    fn remove(self) {
        for path in self.0.iter().rev() {
            // If another program has written into a folder, the folder stays.
            let _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::own_source;

    #[test]
    fn command_from_the_registry_depends_on_its_version() {
        let registry = std::env::temp_dir().join("registry/hier-cli-0.1.0");
        assert_eq!(own_source(&registry), format!("version = {:?}", env!("CARGO_PKG_VERSION")));
        assert!(own_source(Path::new(env!("CARGO_MANIFEST_DIR"))).starts_with("path = "));
    }
}
