//! The test that [`lock!`](macro@crate::lock) makes, and the interface to the command `hier`.

use std::env;
use std::fs;
use std::path::Path;

use super::{Lock, LockReport};

/// The name of the lock file. The file is in the same folder as the package's `Cargo.toml`.
pub const LOCK_FILE: &str = "graph.lock";
/// The name of an environment variable that contains a path. If it is set, the test of [`lock!`](crate::lock!) writes
/// the lock of the program to this path and does not compare it. The commands `hier lock` and `hier check` set the
/// variable.
pub const LOCK_REQUEST: &str = "HIER_LOCK_TO";

/// Compares the lock of a program with the lock file in the folder `package`. Creates a missing file, except in CI.
///
/// # Panics
///
/// Panics if a change breaks threads, if the file is missing in CI, or if the file cannot be read or written.
#[doc(hidden)]
pub fn check_program(lock: &Lock, package: &str) {
    let is_ci = env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    if let Err(reason) =
        compare_with_file(lock, Path::new(package), env::var_os(LOCK_REQUEST).as_deref().map(Path::new), is_ci)
    {
        panic!("{reason}");
    }
}

fn compare_with_file(lock: &Lock, package: &Path, request: Option<&Path>, is_ci: bool) -> Result<(), String> {
    let write = |path: &Path| {
        fs::write(path, lock.to_string()).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    };
    if let Some(path) = request {
        return write(path);
    }
    let path = package.join(LOCK_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_ci => return write(&path),
        Err(error) => {
            return Err(format!("cannot read `{}`: {error}: run `hier lock`, and commit the file", path.display()));
        }
    };
    let old = Lock::parse(&text).map_err(|error| error.to_string())?;
    let report = LockReport::new(&old, lock);
    if report.passes() {
        return Ok(());
    }
    Err(format!(
        "this program breaks threads of the program in `{LOCK_FILE}`:\n\n{report}\n`hier check --db URL` counts the threads. If none of \
         these threads is in use any more, accept the change with `hier lock`."
    ))
}

/// Makes a test that compares the graphs of a program with the file `graph.lock` of the package. The test fails if a
/// change breaks stored threads. The commands `hier lock` and `hier check` run this test, too.
///
/// Pass graph types. If a graph or its nodes were renamed, pass the compiled graph with the earlier names:
///
/// ```
/// # use hier_core::prelude::*;
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Case { done: bool }
/// # async fn assess() {}
/// # graph! { Review<Case> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
/// # graph! { Audit<Case> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
/// hier_testkit::lock!(Review, Audit::compile().renamed("weigh", "assess"));
/// # fn main() {}
/// ```
///
/// If the file does not exist, the test creates it. In CI, where the environment variable `CI` is set, the test fails
/// instead.
#[macro_export]
macro_rules! lock {
    ($($graph:expr),+ $(,)?) => {
        #[::core::prelude::v1::test]
        fn hier_graph_lock() {
            let lock = $crate::lock::LockBuilder::new()$(.graph(&$graph))+.build();
            $crate::lock::check_program(&lock, ::core::env!("CARGO_MANIFEST_DIR"));
        }
    };
}
