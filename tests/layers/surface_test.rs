//! Tests of `surface` with the documentation of two small crates that are compiled here.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use hier_layers::surface::{differences, foreign};

/// A crate whose types are in the API of the crate under test.
const OTHER: &str = "
    pub struct Field; pub struct Argument; pub struct Returned; pub struct Inner; pub struct Unseen; pub struct Associated;
    pub struct Passed; pub struct Bounded<T>(pub T); pub struct Failure;
    pub trait Implemented { fn it(&self) {} } pub trait Bound {} pub trait Above {}
    impl<T> Above for T {}
";

/// Names each of them once, in a place that users see; and some in places that they do not.
const CRATE: &str = "
    use other::*;
    pub struct One { pub field: Field, private: Unseen }
    pub fn function(_: Vec<Option<Inner>>, _: &Argument) -> impl Iterator<Item = Returned> + 'static { std::iter::empty() }
    impl Implemented for One { fn it(&self) { let _unseen = Unseen; } }
    impl From<Failure> for One { fn from(_: Failure) -> Self { unimplemented!() } }
    impl Iterator for One { type Item = Associated; fn next(&mut self) -> Option<Associated> { let _ = &self.private; None } }
    pub fn generic<T: Bound>(_: T) {}
    pub use other::Passed;
    fn private(_: Unseen) {}
    mod inside { pub fn private(_: other::Unseen) {} }
    #[doc(hidden)] pub fn hidden(_: Unseen) { private(Unseen); inside::private(Unseen); }
";

fn run(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

static DOCUMENTATION: LazyLock<String> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("surface");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("other.rs"), OTHER).expect("written");
    std::fs::write(folder.join("ours.rs"), CRATE).expect("written");
    let tool = |name: &str| {
        let mut command = Command::new(name);
        command.current_dir(&folder).args(["--edition=2024", "--crate-type=lib"]);
        command
    };
    run(tool("rustc").args(["--emit=metadata", "other.rs"]));
    run(tool("rustdoc").env("RUSTC_BOOTSTRAP", "1").args([
        "-Zunstable-options",
        "--output-format=json",
        "--out-dir=.",
        "--extern=other=libother.rmeta",
        "ours.rs",
    ]));
    std::fs::read_to_string(folder.join("ours.json")).expect("the documentation")
});

#[test]
fn every_public_use_of_a_foreign_type_is_found() {
    let found = foreign(&DOCUMENTATION).expect("documentation");
    assert_eq!(found.keys().collect::<Vec<_>>(), ["other"], "the standard library is everywhere");
    let other: Vec<&str> = found["other"].keys().map(String::as_str).collect();
    let expected = [
        "other::Argument",
        "other::Associated",
        "other::Bound",
        "other::Failure",
        "other::Field",
        "other::Implemented",
        "other::Inner",
        "other::Passed",
        "other::Returned",
    ];
    assert_eq!(other, expected);
    assert_eq!(found["other"]["other::Field"], "ours.rs:3");
}

#[test]
fn unlisted_and_unused_entries_are_reported() {
    let found = foreign(&DOCUMENTATION).expect("documentation");
    assert_eq!(differences("ours", &found, &[("other", "a reason")]), [""; 0]);
    let lines = differences("ours", &found, &[("third", "a reason")]);
    assert_eq!(lines.len(), 10, "{lines:#?}");
    assert!(
        lines.contains(
            &"ours.rs:3: `other::Field` is in the public API of `ours`: hide it behind a type of ours".into()
        ),
        "{lines:#?}"
    );
    assert_eq!(lines[9], "`third` is no longer in the public API of `ours`: take it out of the list");
}
