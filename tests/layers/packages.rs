//! The packages of the workspace: the compiler and the versions that they need, and their targets. `deny.toml` has the rules about licences,
//! banned crates and duplicates.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The packages that are compiled for the workspace, with all features, on all platforms.
fn packages() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the folder of the workspace");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version=1", "--all-features", "--locked"]).current_dir(root);
    let output = cargo.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("no packages: {other}"),
    }
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

/// The first two numbers of a version.
fn minor(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

#[test]
fn dependencies_support_the_declared_compiler() {
    let packages = packages();
    let ours: BTreeSet<&str> =
        packages.iter().filter(|it| it["source"].is_null()).map(|it| text(it, "rust_version")).collect();
    let [stated] = ours.iter().copied().collect::<Vec<_>>()[..] else { panic!("several `rust-version`s: {ours:?}") };
    let newer = packages.iter().filter(|package| minor(text(package, "rust_version")) > minor(stated));
    let newer: Vec<_> = newer.map(|it| format!("{} ({})", text(it, "name"), text(it, "rust_version"))).collect();
    assert!(newer.is_empty(), "`rust-version` is {stated}; these need a newer compiler: {newer:?}");
}

/// Returns true if a `rust-version` is the compiler of `rustc --version`.
fn is_of(stated: &str, compiler: &str) -> bool {
    compiler.strip_prefix("rustc ").is_some_and(|version| minor(version) == minor(stated))
}

#[test]
fn compiler_is_identified_by_two_numbers() {
    for (stated, compiler, same) in [
        ("1.95", "rustc 1.95.0 (59807616e 2026-04-14)", true),
        ("1.95.1", "rustc 1.95.0 (59807616e 2026-04-14)", true),
        ("1.9", "rustc 1.95.0 (59807616e 2026-04-14)", false),
        ("1.95", "rustc 1.96.0 (59807616e 2026-05-28)", false),
        ("1.95", "clippy 1.95.0", false),
    ] {
        assert_eq!(is_of(stated, compiler), same, "{stated}, {compiler}");
    }
}

/// CI uses the oldest supported compiler, so that the declared version is tested.
#[test]
fn ci_uses_the_declared_compiler() {
    if std::env::var_os("CI").is_none() {
        return;
    }
    let output = Command::new("rustc").arg("--version").output().expect("rustc starts");
    let compiler = String::from_utf8_lossy(&output.stdout);
    for package in packages().iter().filter(|it| it["source"].is_null()) {
        let stated = text(package, "rust_version");
        assert!(
            is_of(stated, &compiler),
            "`rust-version` of {} is {stated}, and CI has {}: change `rust-version` in Cargo.toml",
            text(package, "name"),
            compiler.trim_end()
        );
    }
}

/// Returns the lowest version of a requirement.
fn least(requirement: &str) -> &str {
    requirement.trim_start_matches(['^', '=', '~', '>'])
}

#[test]
fn minimum_versions_are_the_tested_ones() {
    let packages = packages();
    let locked: BTreeSet<(&str, &str)> = packages
        .iter()
        .map(|it| (text(it, "name"), text(it, "version").split('+').next().unwrap_or_default()))
        .collect();
    let ours = packages.iter().filter(|it| it["source"].is_null());
    let required = ours.flat_map(|it| it["dependencies"].as_array().into_iter().flatten());
    let untested: BTreeSet<_> = required
        .filter(|it| it["path"].is_null())
        .map(|it| (text(it, "name"), least(text(it, "req"))))
        .filter(|required| !locked.contains(required))
        .collect();
    assert!(
        untested.is_empty(),
        "Cargo.lock has other versions; write those that it has into Cargo.toml: {untested:?}"
    );
}

/// Collects the file of a target and those of its modules.
fn files_of(file: &Path, folder: &Path, into: &mut Vec<PathBuf>) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    into.push(file.to_owned());
    let declared = text.lines().filter_map(|line| line.trim().strip_suffix(';')?.rsplit_once("mod "));
    for (_, name) in declared {
        let within = folder.join(name);
        for file in [within.with_extension("rs"), within.join("mod.rs")] {
            if file.is_file() {
                files_of(&file, &within, into);
            }
        }
    }
}

/// A target is compiled a second time for its unit tests, so one without tests has `test = false`. Otherwise the first test
/// there would never run.
#[test]
fn crates_without_tests_disable_them() {
    let packages = packages();
    let ours = packages.iter().filter(|it| it["source"].is_null());
    let targets = ours.flat_map(|it| it["targets"].as_array().into_iter().flatten());
    let code = |kind: &Value| ["lib", "bin", "proc-macro"].contains(&kind.as_str().unwrap_or_default());
    for target in targets.filter(|it| it["kind"].as_array().into_iter().flatten().any(code)) {
        let file = Path::new(text(target, "src_path"));
        let mut files = Vec::new();
        files_of(file, file.parent().expect("a folder"), &mut files);
        let is_test = |line: &str| {
            ["#[test]", "#[tokio::test", "proptest! {", "#[path = "].iter().any(|it| line.trim().starts_with(it))
        };
        let with =
            files.iter().find(|file| std::fs::read_to_string(file).expect("it was read already").lines().any(is_test));
        match (target["test"] == true, with) {
            (false, Some(test)) => {
                panic!("{} is never run: remove `test = false` from `{}`", test.display(), text(target, "name"));
            }
            (true, None) => {
                panic!("`{}` has no unit tests: write `test = false` into its Cargo.toml", text(target, "name"))
            }
            _ => {}
        }
    }
}

#[test]
fn published_crates_share_the_version_of_the_changelog() {
    let packages = packages();
    let ours = packages.iter().filter(|it| it["source"].is_null());
    let versions: BTreeSet<&str> = ours.map(|it| text(it, "version")).collect();
    let [version] = versions.iter().copied().collect::<Vec<_>>()[..] else { panic!("several versions: {versions:?}") };
    let changelog = include_str!("../../CHANGELOG.md");
    assert!(changelog.contains(&format!("\n## {version}")), "CHANGELOG.md has no section `## {version}`");
}

/// The integration tests of the workspace that run only if they are named.
fn named_tests(packages: &[Value]) -> BTreeSet<&str> {
    let ours = packages.iter().filter(|package| package["source"].is_null());
    let targets = ours.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let is_named = |target: &&Value| target["kind"][0] == "test" && target["test"] == false;
    targets.filter(is_named).map(|target| text(target, "name")).collect()
}

/// `--all-targets` leaves these out, so an error in one would be found only when it runs.
#[test]
fn script_lints_tests_that_run_only_if_named() {
    let script = include_str!("../../scripts/test.sh");
    let lints: Vec<&str> = script.lines().filter(|line| line.starts_with("cargo clippy")).collect();
    let packages = packages();
    let named = named_tests(&packages);
    assert!(named.contains("cluster"), "{named:?}");
    for test in named {
        let option = format!("--test {test} ");
        assert!(lints.iter().any(|line| line.contains(&option)), "scripts/test.sh does not lint the test `{test}`");
    }
}

/// The workspace excludes this package, so no other command updates its lock file when a crate gets a dependency.
#[test]
fn lock_file_of_the_excluded_package_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the folder of the workspace");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version=1", "--locked", "--manifest-path", "tests/precise/Cargo.toml"]);
    let output = cargo.current_dir(root).output().expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "run `cargo metadata --manifest-path tests/precise/Cargo.toml`: {errors}");
}
