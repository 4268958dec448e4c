//! Reads the lock of a program, by running the test that `hier::testing::lock!` makes.

use std::fs;
use std::path::PathBuf;

use hier_testkit::lock::{LOCK_REQUEST, Lock};
use uuid::Uuid;

use super::LockCommandError;
use super::args::ProgramArgs;
use crate::project::{CargoTarget, PackageTarget, file_contains, folder_contains, run_cargo, targets};

const CALL: &str = "lock!(";
const TEST: &str = "hier_graph_lock";

pub(super) struct ProgramLock {
    pub(super) lock: Lock,
    pub(super) folder: PathBuf,
}

/// Builds and runs the test of a program, and returns the lock that it writes.
pub(super) fn read_program(arguments: &ProgramArgs) -> Result<ProgramLock, LockCommandError> {
    let PackageTarget { package, folder, target } = find_test(arguments)?;
    // Other users can neither guess the name nor create the file first.
    let answer = std::env::temp_dir().join(format!("hier-{}.lock", Uuid::new_v4()));
    let mut words = vec!["test", "--quiet", "--package", &package];
    if target.is("test") {
        words.extend(["--test", &target.name]);
    } else if target.is("bin") {
        words.extend(["--bin", &target.name]);
    } else {
        words.push("--lib");
    }
    words.extend(["--", TEST]);
    let manifest = arguments.manifest_path.as_deref();
    let ran = run_cargo(manifest, &words, Some((LOCK_REQUEST, answer.as_os_str())));
    let text = fs::read_to_string(&answer);
    // The file is temporary, and may be missing.
    let _ = fs::remove_file(&answer);
    ran?;
    let text = text.map_err(|_| {
        LockCommandError::Choose(format!(
            "`{}` has no test for its graphs: add `hier::testing::lock!(MyGraph);` to this file, outside of functions",
            target.src_path.display()
        ))
    })?;
    let lock = Lock::parse(&text).map_err(|error| LockCommandError::ProgramLock(target.src_path, error))?;
    Ok(ProgramLock { lock, folder })
}

/// Returns true if a target calls the macro. Searches only the target's own file if the target is a test file, because
/// each test file is a separate target.
fn calls_macro(target: &CargoTarget) -> bool {
    let is_file = target.is("test") && target.src_path.file_stem().is_none_or(|stem| stem != "main");
    if is_file { file_contains(&target.src_path, CALL) } else { folder_contains(&target.src_path, CALL) }
}

/// Returns the target that calls the macro.
fn find_test(arguments: &ProgramArgs) -> Result<PackageTarget, LockCommandError> {
    let all = targets(arguments.manifest_path.as_deref(), arguments.package.as_deref())?;
    let is_named = |found: &PackageTarget| match &arguments.test {
        Some(name) => found.target.is("test") && found.target.name == *name,
        None => calls_macro(&found.target),
    };
    let is_tested = |found: &PackageTarget| !found.target.is("example") && !found.target.is("bench");
    let mut found: Vec<PackageTarget> = all.into_iter().filter(|found| is_tested(found) && is_named(found)).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(LockCommandError::Choose(
            "no test of this project calls `hier::testing::lock!`: add `hier::testing::lock!(MyGraph);` to a file in `tests`, or add \
             `--package`, `--test` or `--manifest-path`"
                .to_owned(),
        )),
        _ => {
            let names: Vec<_> = found.iter().map(|found| format!("{} ({})", found.target.name, found.package)).collect();
            Err(LockCommandError::Choose(format!(
                "several tests call `hier::testing::lock!`: choose one with `--package` or `--test`: {}",
                names.join(", ")
            )))
        }
    }
}
