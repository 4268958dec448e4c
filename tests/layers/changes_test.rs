//! Tests of `changes` with two small crates that are documented here.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use hier_layers::changes::breaks;

/// The documentation of a crate of this text.
fn documentation(name: &str, text: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("changes").join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("ours.rs"), text).expect("written");
    let mut rustdoc = Command::new("rustdoc");
    rustdoc.env("RUSTC_BOOTSTRAP", "1").current_dir(&folder).args([
        "--edition=2024",
        "--crate-type=lib",
        "-Zunstable-options",
        "--output-format=json",
        "--out-dir=.",
        "ours.rs",
    ]);
    let output = rustdoc.output().expect("rustdoc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(folder.join("ours.json")).expect("the documentation")
}

const OLD: &str = "
    mod inside { pub struct Moved; pub struct Kept { pub one: u8, two: u8 } impl Kept { pub fn at(&self) -> u8 { self.two } } }
    pub use inside::{Kept, Moved as Renamed};
    pub mod all { pub use super::inside::*; }
    #[derive(Clone)] pub struct Cloned(pub u8);
    pub enum Closed { One } #[non_exhaustive] pub enum Open { One }
    pub struct Whole { pub one: u8 }
    pub trait Done { fn one(&self); fn two(&self) {} }
    pub fn told(_: u8) -> u8 { 0 }
    pub fn heard(_: u8) {}
    pub struct Sent(pub std::marker::PhantomData<u8>);
    #[doc(hidden)] pub fn hidden() {}
";

/// Its documentation, for all tests.
static BEFORE: LazyLock<String> = LazyLock::new(|| documentation("old", OLD));

/// Returns the breaking changes if these parts of the old text are replaced.
fn after(name: &str, replaced: &[(&str, &str)]) -> Vec<String> {
    let mut text = OLD.to_owned();
    for (old, new) in replaced {
        assert!(text.contains(old), "{old}");
        text = text.replacen(old, new, 1);
    }
    let lines = breaks(&BEFORE, &documentation(name, &text)).expect("documentation").into_iter();
    // Only the names of implemented traits, and not the change of an item.
    let short = |line: String| line.split(['\n', '{']).next().unwrap_or_default().trim_end().to_owned();
    lines.map(short).collect()
}

#[test]
fn removed_or_changed_items_break() {
    let lines = after(
        "broken",
        &[
            ("pub fn told(_: u8) -> u8 { 0 }", ""),
            ("heard(_: u8)", "heard(_: u16)"),
            ("Moved as Renamed", "Moved"),
            ("pub fn at", "fn at"),
            ("pub one: u8, two", "one: u8, two"),
            ("#[derive(Clone)]", ""),
            ("PhantomData<u8>", "PhantomData<*mut u8>"),
        ],
    );
    let expected = [
        "gone: ours::Cloned::impl",
        "gone: ours::Kept::at",
        "gone: ours::Kept::one",
        "gone: ours::Renamed",
        "changed: ours::Sent::0",
        "changed: ours::Sent::impl",
        "changed: ours::Sent::impl",
        "gone: ours::all::Kept::at",
        "gone: ours::all::Kept::one",
        "changed: ours::heard",
        "gone: ours::told",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn additions_to_exhaustive_types_break() {
    let lines = after(
        "completed",
        &[
            ("Closed { One }", "Closed { One, Two }"),
            ("Whole { pub one: u8 }", "Whole { pub one: u8, pub two: u8 }"),
            ("Done { ", "Done { fn zero(&self); "),
        ],
    );
    let new = |part: &str| format!("new, where there was all: ours::{part}");
    assert_eq!(lines, ["Closed::Two", "Done::zero", "Whole::two"].map(new));
}

#[test]
fn additions_and_hidden_items_do_not_break() {
    let lines = after(
        "extended",
        &[
            ("pub mod all", "pub fn more() {} pub mod all"),
            ("Open { One }", "Open { One, Two }"),
            ("pub one: u8, two: u8 }", "pub one: u8, pub three: u8, two: u8, four: u8 }"),
            ("fn two(&self) {}", "fn two(&self) {} fn three(&self) {}"),
            ("pub fn at", "pub fn more(&self) {} pub fn at"),
            ("pub struct Whole", "#[derive(Debug)] pub struct Whole"),
            ("#[doc(hidden)] pub fn hidden() {}", ""),
            // Its place in the file does not matter.
            (
                "mod inside { pub struct Moved;",
                "pub use other::Moved as Again; mod other { pub struct Moved; } mod inside { pub use super::other::Moved;",
            ),
        ],
    );
    assert_eq!(lines, [""; 0]);
}
