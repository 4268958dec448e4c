//! Helpers shared by the integration tests.

use std::path::PathBuf;
use std::process::Command;

/// Builds an example of the workspace and returns the path of its executable.
///
/// The build uses the flags of `cargo test --workspace --all-features`, so a run of all tests finds the example already built.
///
/// # Panics
///
/// Panics if the example cannot be built.
pub fn example(name: &str) -> PathBuf {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--workspace", "--all-features", "--example", name]);
    build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    assert!(build.status().expect("cargo runs").success(), "the example `{name}` cannot be built");
    // A test is `TARGET/debug/deps/NAME-…`.
    let own = std::env::current_exe().expect("this test");
    own.ancestors().nth(2).expect("the folder of the profile").join("examples").join(name)
}
