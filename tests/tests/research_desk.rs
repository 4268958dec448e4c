//! The example `research_desk`: researchers in the background, a search for tools, citations, and a killed process.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The calls of the editor, in order.
const CALLS: [&str; 5] = [
    r#"editor: researcher {"task":"lens"}"#,
    r#"editor: researcher {"task":"radio"}"#,
    r#"editor: search_tools {"query":"lives of keepers"}"#,
    "editor: archive_keepers_journals {}",
    "editor: wait_for_subagents {}",
];

/// The researchers, and the answer with its citations.
const END: &str = "researcher-1: \"lens\" Reported
researcher-2: \"radio\" Reported

From 1822 on, a lens carried a lamp's light 20 miles. From 1921 on, beacons did what lights had done. \
A keeper's journal of 1851 counts 212 nights with a watch of four hours, until electric light ended the watches.
- \"From 1822 on, a lens carried a lamp's light 20 miles.\" (Fresnel, https://example.org/fresnel)
- \"From 1921 on, beacons did what lights had done.\" (Radio beacons, https://example.org/beacons)
";

fn desk(words: &[&str]) -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let mut desk = Command::new(BUILT.get_or_init(|| hier_tests::example("research_desk")));
    desk.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    desk
}

fn printed(words: &[&str]) -> String {
    let Output { status, stdout, stderr } = desk(words).output().expect("it ends");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

fn whole(calls: &[&str]) -> String {
    [calls, &[END]].concat().join("\n")
}

/// The archive's first tools are others: the scripted editor finds this one by search, and calls the first that it has.
#[test]
fn answer_cites_the_pages_of_the_researchers() {
    assert_eq!(printed(&[]), whole(&CALLS));
}

/// Returns the rest of the output of a process that is killed when it has printed this line.
fn killed_after(line: &str, words: &[&str]) -> String {
    let mut desk = desk(words).spawn().expect("the example starts");
    let mut out = BufReader::new(desk.stdout.take().expect("its output"));
    let mut read = String::new();
    while read.trim_end() != line {
        read.clear();
        assert_ne!(out.read_line(&mut read).expect("text"), 0, "the example ended before `{line}`");
    }
    desk.kill().expect("it can be killed");
    desk.wait().expect("it is dead");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    rest
}

#[test]
fn next_process_continues_the_run_and_its_researchers() {
    let folder = tempfile::tempdir().expect("a folder");
    // The archive answers after 300 ms. A busy machine may kill the process later.
    let mut stopped = (0..5).map(|number| folder.path().join(format!("desk-{number}.db")).display().to_string());
    let db = stopped.find(|db| killed_after(CALLS[3], &["--db", db]).is_empty()).expect("a killed process");
    let printed_again = printed(&["--db", &db]);
    // The model repeats the last call that was printed if the process died before it was stored.
    let rest = printed_again.strip_prefix(CALLS[3]).map_or(&*printed_again, str::trim_start);
    assert_eq!(rest, whole(&CALLS[4..]));
    // The next question has researchers of its own.
    let next = printed(&["And now?", "--db", &db]);
    let statuses = next.lines().filter(|line| line.ends_with("Reported"));
    assert_eq!(statuses.count(), 4, "{next}");
}

#[test]
fn model_without_web_search_is_refused_with_the_others() {
    let Output { status, stderr, .. } = desk(&["--model", "ollama:none"]).output().expect("it ends");
    let error = String::from_utf8_lossy(&stderr);
    assert!(
        !status.success() && error.contains("no tool `web_search`") && error.contains("Model::anthropic"),
        "{error}"
    );
}
