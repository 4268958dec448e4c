//! `hier lock` and `hier check`, with a package whose test answers like that of `hier::testing::lock!`.

use std::fs;
use std::path::Path;
use std::process::{Command as Process, Output};

use hier_core::graph::{CompiledGraph, GraphBuilder, NodeDef, Task};
use hier_core::prelude::*;
use hier_sqlite::Sqlite;
use hier_testkit::lock::{Lock, LockBuilder};
use serde_json::Value;
use tempfile::TempDir;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Order {
    amount: u32,
    signed_by: String,
}

fn review(node: &str) -> CompiledGraph<Order> {
    let sign = NodeDef::task(async |task: Task<Order>| -> hier_core::Result<OrderUpdate> {
        Ok(Order::update().signed_by(task.run().interrupt::<String>(&"who signs?").await?))
    });
    let graph = GraphBuilder::<Order>::new("review").node(node, sign).edge(START, node).edge(node, END);
    graph.compile().unwrap_or_else(|error| panic!("{error}"))
}

fn lock(node: &str) -> Lock {
    LockBuilder::new().graph(&review(node)).build()
}

fn hier(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Process::new(env!("CARGO_BIN_EXE_hier"));
    command.current_dir(folder).args(arguments).env_remove("CARGO_TARGET_DIR").output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
    fs::write(path, text).expect("the file");
}

/// A package whose program has these graphs.
fn package(lock: &Lock) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    write(
        folder.path(),
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    write(folder.path(), "src/lib.rs", "");
    show(folder.path(), "graph", lock);
    folder
}

fn show(folder: &Path, test: &str, lock: &Lock) {
    let answer = format!(
        "// as hier::testing::lock!(Review)\n#[test]\nfn hier_graph_lock() {{\n    if let Some(path) = std::env::var_os(\"HIER_LOCK_TO\") {{\n        \
         std::fs::write(path, {:?}).unwrap();\n    }}\n}}\n",
        lock.to_string()
    );
    write(folder, &format!("tests/{test}.rs"), &answer);
}

#[test]
fn lock_is_written_and_compared() {
    let folder = package(&lock("sign"));
    let none = hier(folder.path(), &["check"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("write the file with `hier lock`"), "{}", text(&none.stderr));

    let written = hier(folder.path(), &["lock"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let file = fs::read_to_string(folder.path().join("graph.lock")).expect("the lock file");
    assert_eq!(Lock::parse(&file), Ok(lock("sign")));
    let same = hier(folder.path(), &["check"]);
    assert_eq!(
        (same.status.code(), &*text(&same.stdout)),
        (Some(0), "nothing has changed that stored threads depend on\n")
    );

    show(folder.path(), "graph", &lock("confirm"));
    let changed = hier(folder.path(), &["check"]);
    assert_eq!(changed.status.code(), Some(1));
    let shown = text(&changed.stdout);
    assert!(shown.contains("breaks review: node `sign` is gone"), "{shown}");
    assert!(shown.contains("node `confirm` is new"), "{shown}");
    let accepted = text(&hier(folder.path(), &["lock"]).stdout);
    assert!(accepted.contains("accepted: review: node `sign` is gone"), "{accepted}");
    assert_eq!(hier(folder.path(), &["check"]).status.code(), Some(0));

    write(folder.path(), "old.lock", &file);
    assert_eq!(hier(folder.path(), &["check", "--lock", "old.lock"]).status.code(), Some(1));
    // A file that cannot be written completely does not replace the old one.
    fs::create_dir(folder.path().join("graph.lock.new")).expect("a folder");
    let unwritten = hier(folder.path(), &["lock"]);
    assert_eq!(unwritten.status.code(), Some(2));
    assert!(text(&unwritten.stderr).contains("check the permissions and the space"), "{}", text(&unwritten.stderr));
    assert_eq!(hier(folder.path(), &["check"]).status.code(), Some(0));
    write(folder.path(), "graph.lock", "lock 1\ngraph review\n  knot a\n");
    let damaged = hier(folder.path(), &["check"]);
    assert_eq!(damaged.status.code(), Some(2));
    assert!(
        text(&damaged.stderr).contains("/graph.lock`: line 3 of the lock file: it begins with the unknown word `knot`"),
        "{}",
        text(&damaged.stderr)
    );
}

#[cfg(unix)]
#[test]
fn lock_behind_a_symlink_is_written_where_the_link_leads() {
    let folder = package(&lock("sign"));
    let path = folder.path().join("graph.lock");
    fs::create_dir(folder.path().join("shared")).expect("a folder");
    std::os::unix::fs::symlink("shared/review.lock", &path).expect("a symlink");
    // The file does not exist at first.
    for node in ["sign", "confirm"] {
        show(folder.path(), "graph", &lock(node));
        let written = hier(folder.path(), &["lock"]);
        assert!(written.status.success(), "{}", text(&written.stderr));
        assert!(path.is_symlink());
        let file = fs::read_to_string(folder.path().join("shared/review.lock")).expect("the lock file");
        assert_eq!(Lock::parse(&file), Ok(lock(node)));
    }
}

#[test]
fn invalid_lock_of_a_program_names_the_test_that_wrote_it() {
    let folder = package(&lock("sign"));
    write(folder.path(), "graph.lock", &lock("sign").to_string());
    let test = fs::read_to_string(folder.path().join("tests/graph.rs")).expect("the test");
    write(folder.path(), "tests/graph.rs", &test.replace("lock 1", "lock 99"));
    for command in ["lock", "check"] {
        let failed = hier(folder.path(), &[command]);
        let shown = text(&failed.stderr);
        assert!(shown.contains("tests/graph.rs` wrote an invalid lock, in line 3: the format is 99"), "{shown}");
        assert!(shown.contains("install that version of `hier-cli`"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_of_a_database_are_counted() {
    let folder = package(&lock("confirm"));
    write(folder.path(), "graph.lock", &lock("sign").to_string());
    let db = folder.path().join("threads.db");
    let graph = review("sign").checkpointer(Sqlite::open(&db).await.expect("the database"));
    for thread in ["a", "b", "c"] {
        let _ = graph.invoke(Order::update().amount(5)).thread(thread).await.expect("the run");
    }
    let _ = graph.invoke(Command::resume("Ada")).thread("c").await.expect("the run");
    let other = GraphBuilder::<Order>::new("other").node("x", NodeDef::task(async |_: Task<Order>| Order::update()));
    let other = other.edge(START, "x").edge("x", END).compile().expect("the graph");
    let other = other.checkpointer(Sqlite::open(&db).await.expect("the database"));
    let _ = other.invoke(Order::update()).thread("d").await.expect("the run");

    let found = hier(folder.path(), &["check", "--db", "threads.db"]);
    assert_eq!(found.status.code(), Some(1), "{}", text(&found.stderr));
    let shown = text(&found.stdout);
    for line in
        ["  2 threads waiting at `sign`\n", "2 of 3 threads break\n", "1 threads belong to graphs of other programs\n"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    let json = hier(folder.path(), &["check", "--db", "threads.db", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&json["passes"], &json["threads"]["broken"]), (&Value::Bool(false), &Value::from(2)));
    assert_eq!(json["findings"][0]["code"], "node-removed");
    assert_eq!(json["findings"][0]["threads"][0]["count"], 2);

    for thread in ["a", "b"] {
        let _ = graph.invoke(Command::resume("Ada")).thread(thread).await.expect("the run");
    }
    let none = hier(folder.path(), &["check", "--db", "threads.db"]);
    assert_eq!(none.status.code(), Some(0), "no thread stands there any more");
    assert!(text(&none.stdout).contains("  no thread is affected\n"), "{}", text(&none.stdout));
    let missing = hier(folder.path(), &["check", "--db", "missing.db"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Claim {
    papers: Vec<String>,
    risk: u32,
    log: String,
    verdict: String,
}

#[derive(View)]
#[view(of = Claim)]
struct Papers<'a> {
    papers: &'a Vec<String>,
}

#[derive(View)]
#[view(of = Claim)]
struct Rating {
    risk: u32,
    log: String,
}

#[derive(View)]
#[view(of = Claim)]
struct Decision {
    verdict: String,
}

async fn rate(papers: Papers<'_>) -> Rating {
    Rating { risk: u32::from(papers.papers.is_empty()), log: "rated".to_owned() }
}

async fn decide() -> Decision {
    Decision { verdict: "accepted".to_owned() }
}

/// As `rate`, but it reads everything.
async fn audit(claim: &Claim) -> Rating {
    Rating { risk: 0, log: claim.log.clone() }
}

graph! {
    Typed<Claim> = Graph {
        output: Decision,
        nodes: [rate, decide],
        edges: [START >> rate >> if state.risk > 0 { decide } else { END }, decide >> END],
    }
}

graph! {
    Untyped<Claim> = Graph {
        output: Decision,
        nodes: [audit, decide],
        edges: [START >> audit >> if state.risk > 0 { decide } else { END }, decide >> END],
    }
}

#[test]
fn channels_that_nothing_reads_are_a_note() {
    let folder = package(&LockBuilder::new().graph(&Typed).graph(&Untyped).build());
    assert!(hier(folder.path(), &["lock"]).status.success());
    let same = hier(folder.path(), &["check"]);
    let expected = "nothing has changed that stored threads depend on\n\n\
                    note: typed: no node, route or `output:` reads `log`, which nodes write\n";
    assert_eq!((same.status.code(), &*text(&same.stdout)), (Some(0), expected));
    let json = hier(folder.path(), &["check", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["unread"], serde_json::json!([{ "graph": "typed", "channels": ["log"] }]));
    // A channel that is no longer read changes nothing for stored threads.
    let file = fs::read_to_string(folder.path().join("graph.lock")).expect("the lock file");
    write(folder.path(), "read.lock", &file.replace(" unread=true", ""));
    let changed = hier(folder.path(), &["check", "--lock", "read.lock"]);
    assert_eq!((changed.status.code(), &*text(&changed.stdout)), (Some(0), expected));
}

#[test]
fn project_without_the_macro_or_with_several_is_refused() {
    let folder = package(&lock("sign"));
    show(folder.path(), "second", &lock("sign"));
    let several = hier(folder.path(), &["lock"]);
    assert_eq!(several.status.code(), Some(2));
    assert!(text(&several.stderr).contains("several tests call `hier::testing::lock!`"), "{}", text(&several.stderr));
    assert!(hier(folder.path(), &["lock", "--test", "second"]).status.success());
    for test in ["graph", "second"] {
        write(folder.path(), &format!("tests/{test}.rs"), "");
    }
    let none = hier(folder.path(), &["lock"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("add `hier::testing::lock!(MyGraph);`"), "{}", text(&none.stderr));
}
