//! Compares the README with the code.

use std::process::Command;

const README: &str = include_str!("../../README.md");
const PICTURE: &str = include_str!("../../docs/filing_desk.svg");
const DESK: &str = include_str!("../../examples/filing_desk/desk.rs");

/// The code of the hierarchy.
fn hierarchy() -> &'static str {
    let (_, section) = README.split_once("## A hierarchy\n").expect("the section");
    let (_, code) = section.split_once("```rust\n").expect("its code");
    code.split_once("```").expect("its end").0
}

/// The words, wherever comments stand.
fn words(code: &str) -> String {
    let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[test]
fn readme_hierarchy_equals_the_example() {
    let (readme, example) = (words(hierarchy()), words(DESK));
    let items = hierarchy().split("\n\n").map(words).filter(|item| !item.is_empty());
    for item in items {
        assert!(example.contains(&item), "not in examples/filing_desk/desk.rs: {item}");
    }
    assert!(readme.contains("FilingDesk"));
}

#[test]
fn readme_picture_is_current() {
    let output = Command::new(hier_tests::example("filing_desk")).arg("--svg").output().expect("the example");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), PICTURE.trim());
    assert!(README.contains("](docs/filing_desk.svg)"));
}
