//! Tests without their server fail or are ignored. They never pass.

use std::path::{Path, PathBuf};

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the folder of the workspace")
}

/// The Rust files in folders called `tests`.
fn files(folder: &Path, in_tests: bool, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if name != "target" && name != "benches" && !name.starts_with('.') {
                files(&path, in_tests || name == "tests", found);
            }
        } else if in_tests && name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// The text up to the brace that closes the block which the text begins in.
fn block(text: &str) -> &str {
    let mut open = 1;
    let end = text.find(|letter| {
        open += i32::from(letter == '{') - i32::from(letter == '}');
        open == 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// The lines where code reads a variable of the environment and leaves quietly if it is not set.
fn quiet(text: &str) -> Vec<usize> {
    let ends_quietly = |&(at, _): &(usize, &str)| {
        let rest = &text[at..];
        let statement = &rest[..rest.find(';').unwrap_or(rest.len())];
        let otherwise = statement.find("else {").map(|begin| block(&rest[begin + "else {".len()..]));
        otherwise
            .map_or(statement.ends_with('?'), |block| block.split_whitespace().any(|word| word.starts_with("return")))
    };
    text.match_indices("env::var").filter(ends_quietly).map(|(at, _)| text[..at].lines().count().max(1)).collect()
}

#[test]
fn no_test_passes_because_a_variable_is_missing() {
    let mut found = Vec::new();
    files(root(), false, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    let lines: Vec<String> = found
        .iter()
        .filter(|file| !file.ends_with("layers/needs_test.rs"))
        .flat_map(|file| {
            let text = std::fs::read_to_string(file).expect("a text");
            let name = file.strip_prefix(root()).expect("a file of the workspace").display().to_string();
            quiet(&text).into_iter().map(move |line| format!("{name}:{line}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(
        lines.is_empty(),
        "these tests end quietly without a variable: use `expect`, and mark each test with `#[ignore = \"needs …\"]`:\n{}",
        lines.join("\n")
    );
}

#[test]
fn quiet_end_is_found_however_it_is_written() {
    for (text, lines) in [
        ("let Ok(url) = std::env::var(\"A\") else { return };", vec![1]),
        ("\nlet Ok(url) = env::var(\"A\") else {\n    println!(\"skipped\");\n    return;\n};", vec![2]),
        ("let (Ok(a), Ok(b)) = (env::var(\"A\"), env::var(\"B\"))\nelse { return };", vec![1, 1]),
        ("std::env::var_os(\"A\")?;", vec![1]),
        ("let url = std::env::var(\"A\").expect(\"a URL\");\nreturn;", vec![]),
        ("let count = env::var(\"A\").ok().and_then(|it| it.parse().ok()).unwrap_or(3);", vec![]),
        ("let Ok(url) = env::var(\"A\") else { panic!(\"no URL\") };\nreturn;", vec![]),
    ] {
        assert_eq!(quiet(text), lines, "{text}");
    }
}
