//! Finds the targets of cargo projects and runs cargo.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// The error of a cargo command.
#[derive(Debug, thiserror::Error)]
pub enum CargoError {
    /// The command could not start cargo.
    #[error("cannot start cargo: {0}: install Rust, or set the environment variable `CARGO` to the path of cargo")]
    NoCargo(io::Error),
    /// Cargo failed and printed the reason.
    #[error(
        "`{0}` failed: see the messages above; to choose another project, go to its folder or add `--manifest-path`"
    )]
    Failed(String),
    /// The workspace has no package of this name.
    #[error("no package named `{0}`{1}")]
    NoPackage(String, String),
    /// Cargo described the project in a form that the command cannot read.
    #[error("cannot read cargo's metadata: {0}")]
    Metadata(serde_json::Error),
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
    manifest_path: PathBuf,
    targets: Vec<CargoTarget>,
}

/// A program, a test or a library of a package.
#[derive(Deserialize)]
pub(crate) struct CargoTarget {
    pub(crate) kind: Vec<String>,
    pub(crate) name: String,
    pub(crate) src_path: PathBuf,
}

impl CargoTarget {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|it| it == kind)
    }
}

pub(crate) struct PackageTarget {
    pub(crate) package: String,
    /// The folder of the package.
    pub(crate) folder: PathBuf,
    pub(crate) target: CargoTarget,
}

/// Returns the targets of a package. Without a package, returns the targets of the packages that cargo selects by
/// default.
pub(crate) fn targets(manifest: Option<&Path>, package: Option<&str>) -> Result<Vec<PackageTarget>, CargoError> {
    let output = run_cargo(manifest, &["metadata", "--no-deps", "--format-version=1"], None)?;
    let metadata: Metadata = serde_json::from_slice(&output).map_err(CargoError::Metadata)?;
    if let Some(wanted) = package
        && metadata.packages.iter().all(|package| package.name != wanted)
    {
        let known = hier_spec::did_you_mean(wanted, metadata.packages.iter().map(|package| &*package.name));
        return Err(CargoError::NoPackage(wanted.to_owned(), known));
    }
    let mut found = Vec::new();
    for Package { id, name, manifest_path, targets } in metadata.packages {
        if !package.map_or_else(|| metadata.workspace_default_members.contains(&id), |wanted| name == wanted) {
            continue;
        }
        let folder = manifest_path.parent().map(Path::to_owned).unwrap_or_default();
        found.extend(targets.into_iter().map(|target| PackageTarget {
            package: name.clone(),
            folder: folder.clone(),
            target,
        }));
    }
    Ok(found)
}

pub(crate) fn file_contains(path: &Path, text: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|file| file.contains(text))
}

/// Returns true if the main file of a target, or another file in the same folder, contains this text.
pub(crate) fn folder_contains(main: &Path, text: &str) -> bool {
    file_contains(main, text)
        || main.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten().any(|entry| {
            let path = entry.path();
            path.extension().is_some_and(|extension| extension == "rs") && file_contains(&path, text)
        })
}

/// Runs cargo and returns its standard output, which includes the output of the program. Cargo's messages go to the
/// standard error.
pub(crate) fn run_cargo(
    manifest: Option<&Path>,
    words: &[&str],
    variable: Option<(&str, &OsStr)>,
) -> Result<Vec<u8>, CargoError> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let (own, program) = words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
    command.args(own);
    if let Some(path) = manifest {
        command.arg("--manifest-path").arg(path);
    }
    command.args(program).envs(variable).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(CargoError::NoCargo)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(CargoError::Failed(format!("cargo {}", words.join(" "))))
    }
}
