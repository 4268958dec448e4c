//! The docs: where links lead, and that the book has all of its pages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the folder of the workspace")
}

/// The pages next to the manifest, and those of the book.
fn pages() -> Vec<PathBuf> {
    let folders = [root().to_owned(), root().join("docs")];
    let entries = folders.iter().flat_map(|folder| folder.read_dir().expect("the folder")).flatten();
    let mut pages: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    pages.sort();
    assert!(pages.len() > 10, "{pages:?}");
    pages
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then(|| (number + 1, without_code(line)))
    })
}

/// A line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns the targets of links and pictures in this line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// The anchors of a page: its headings as the repository's host and mdbook write them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let headings = text.lines().filter(move |line| {
        in_code ^= line.trim_start().starts_with("```");
        !in_code && line.starts_with('#')
    });
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let letters = heading.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    letters.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

/// Returns the problem of a link of this page, if any.
fn wrong(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None; // others' pages: the test has no network
    }
    let (file, wanted) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap_or(root()).join(file) };
    if !path.exists() {
        return Some(format!("`{target}`: there is no `{}`", path.display()));
    }
    let wanted = wanted?;
    (!anchors(&read(&path)).contains(wanted)).then(|| format!("`{target}`: no heading there is `#{wanted}`"))
}

#[test]
fn every_link_has_a_target() {
    let mut found = Vec::new();
    for page in pages() {
        for (number, line) in prose(&read(&page)) {
            let wrong = targets(&line).filter_map(|target| wrong(&page, target));
            found.extend(wrong.map(|wrong| format!("{}:{number}: {wrong}", page.display())));
        }
    }
    assert!(found.is_empty(), "links that lead nowhere:\n{}", found.join("\n"));
}

#[test]
fn wrong_link_is_found() {
    let page = root().join("docs/SUMMARY.md");
    assert_eq!(wrong(&page, "guide.md"), None);
    assert_eq!(wrong(&page, "https://example.org"), None);
    assert!(wrong(&page, "gide.md").is_some_and(|wrong| wrong.contains("there is no")));
    assert!(wrong(&page, "guide.md#nowhere").is_some_and(|wrong| wrong.contains("no heading")));
    let lines: Vec<_> = prose("[a](b)\n```\n[c](d)\n```\n`[e](f)` [g](h)").collect();
    let led: Vec<_> =
        lines.iter().flat_map(|(number, line)| targets(line).map(move |target| (*number, target))).collect();
    assert_eq!(led, [(1, "b"), (5, "h")]);
    assert_eq!(anchor("Timers, deadlines, signals"), "timers-deadlines-signals");
}

#[test]
fn book_has_every_page_once_and_begins_each_with_its_title() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let listed: Vec<String> =
        prose(&summary).flat_map(|(_, line)| targets(&line).map(str::to_owned).collect::<Vec<_>>()).collect();
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page stands in docs/SUMMARY.md twice: {listed:?}");
    for page in pages().iter().filter(|page| page.starts_with(root().join("docs"))) {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || unique.contains(&name), "docs/{name} is not in docs/SUMMARY.md");
        assert!(read(page).starts_with("# "), "docs/{name} does not begin with its title");
    }
}

#[test]
fn pages_that_start_with_a_program_are_tested() {
    let doctests = read(&root().join("hier/src/lib.rs"));
    let pieces = read(&root().join("hier/tests/pages/main.rs"));
    let pages = [
        "first-graph",
        "first-agent",
        "people",
        "first-workflow",
        "first-service",
        "first-hierarchy",
        "testing",
        "map-reduce",
        "streaming",
        "securing",
        "observing",
        "deploying",
        "coming-from-langgraph",
    ];
    for page in pages {
        let is_tested =
            doctests.contains(&format!("docs/{page}.md\")]")) || pieces.contains(&format!("(\"docs/{page}.md\","));
        assert!(is_tested, "docs/{page}.md is neither a doctest of `hier` nor in hier/tests/pages/main.rs");
        assert!(read(&root().join(format!("docs/{page}.md"))).contains("```rust"), "{page}");
    }
}
