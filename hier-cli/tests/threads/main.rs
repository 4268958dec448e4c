//! The commands for threads as their users see them, on files that graphs have written.

mod changes;
mod output;
mod secrets;
mod studio;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hier_core::checkpoint::{Checkpointer, ListQuery};
use hier_core::prelude::*;
use hier_sqlite::Key;
use hier_sqlite::Sqlite;
use serde_json::{Value, json};
use tempfile::TempDir;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Line {
    text: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    amount: f64,
    #[reducer(append)]
    log: Vec<Line>,
    #[reducer(messages)]
    messages: Messages,
    #[reducer(with = join)]
    #[channel(delta)]
    own: String,
    approved: Option<bool>,
}

#[allow(clippy::needless_pass_by_value)] // the form of a reducer
fn join(old: &mut String, new: String) {
    old.push_str(&new);
}

graph! {
    Approval<Case> = Graph {
        nodes: [check, count, ask, pay],
        edges: [START >> check >> for amount in amounts { count(amount) }, count >> ask >> pay >> END],
    }
}

fn line(text: &str) -> CaseUpdate {
    Case::update().log([Line { text: text.to_owned() }])
}

async fn check() -> CaseUpdate {
    line("checked").messages([Message::user("pay it")]).own("a")
}

fn amounts(_: &Case) -> Vec<u32> {
    vec![1, 2]
}

async fn count(Sent(amount): Sent<u32>) -> CaseUpdate {
    line(&format!("counted {amount}"))
}

async fn ask(state: &Case, run: &Run) -> hier_core::Result<CaseUpdate> {
    let approved: bool = run.interrupt(&json!({ "pay": state.amount })).await?;
    Ok(line("asked").messages([Message::assistant("asking")]).own("b").approved(approved))
}

async fn pay() -> CaseUpdate {
    line("paid")
}

/// A database with a thread that waits for an answer.
struct Desk {
    folder: TempDir,
    saver: Sqlite,
}

impl Desk {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let saver = Sqlite::open(folder.path().join("desk.db")).await.expect("a file");
        let desk = Self { folder, saver };
        desk.run("case-17", Case::update().amount(12.5)).await;
        desk
    }

    async fn run(
        &self,
        thread: &str,
        input: impl hier_core::graph::GraphInput<Case, hier_core::graph::FullState> + Send + 'static,
    ) {
        let graph = Approval::compile().checkpointer(self.saver.clone());
        let _ = graph.invoke(input).thread(thread).await.expect("a run");
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("desk.db")
    }

    fn hier(&self, arguments: &[&str]) -> Output {
        hier(&self.path(), arguments)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.hier(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    async fn ids(&self, thread: &str) -> Vec<String> {
        let list = self.saver.list(ListQuery::thread(thread)).await.expect("a list");
        list.iter().map(|listed| listed.checkpoint.id.to_string()).collect()
    }
}

fn hier(db: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hier"));
    command.args(arguments).arg("--db").arg(db).env_remove("HIER_KEY").output().expect("the command starts")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_listed_with_their_next_nodes() {
    let desk = Desk::new().await;
    desk.run("done", Case::update()).await;
    desk.run("done", hier_core::graph::Command::resume(true)).await;
    let text = out(&desk.hier(&["threads"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("THREAD") && lines[1].starts_with("done") && lines[2].starts_with("case-17"),
        "{text}"
    );
    assert!(lines[2].split_whitespace().any(|cell| cell == "ask"), "{text}");
    assert!(!lines[1].contains("ask"), "{text}");
    let all = desk.json(&["threads"]);
    assert_eq!((&all[0]["thread"], &all[0]["next"]), (&json!("done"), &json!([])));
    assert_eq!(
        (&all[1]["thread"], &all[1]["next"], &all[1]["graph"]),
        (&json!("case-17"), &json!(["ask"]), &json!("approval"))
    );
    assert_eq!(desk.json(&["threads", "--limit", "1"]).as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_shown_without_its_type() {
    let desk = Desk::new().await;
    let state = desk.json(&["state", "case-17"]);
    assert_eq!(state["values"]["amount"], 12.5);
    assert_eq!(
        state["values"]["log"],
        json!([{ "text": "checked" }, { "text": "counted 1" }, { "text": "counted 2" }])
    );
    assert_eq!(state["values"]["messages"][0]["content"], "pay it");
    assert_eq!(state["next"], json!(["ask"]));
    let asked = &state["tasks"][0];
    assert_eq!((&asked["node"], &asked["done"]), (&json!("ask"), &json!(false)));
    assert_eq!(asked["questions"][0]["value"], json!({ "pay": 12.5 }));
    let text = out(&desk.hier(&["state", "case-17"]));
    assert!(text.contains("ask: asks {\"pay\":12.5}") && text.contains("[{\"text\":\"checked\"},"), "{text}");
    desk.run("case-17", hier_core::graph::Command::resume(true)).await;
    let state = desk.json(&["state", "case-17"]);
    assert_eq!(state["values"]["log"].as_array().map(Vec::len), Some(5));
    assert_eq!(state["values"]["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!((&state["next"], &state["values"]["approved"]), (&json!([]), &json!(true)));
    assert!(out(&desk.hier(&["state", "case-17"])).contains("nothing: the thread has ended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_readable_only_by_the_program_are_named() {
    let desk = Desk::new().await;
    desk.run("case-17", hier_core::graph::Command::resume(true)).await;
    let state = desk.json(&["state", "case-17"]);
    // The first write is the whole value; the second was added to it by a reducer of the program's.
    assert!(state["unreadable"]["own"].as_str().is_some_and(|reason| reason.contains("reducer")), "{state}");
    assert!(out(&desk.hier(&["state", "case-17"])).contains("reducer of the program"));
}

#[tokio::test(flavor = "multi_thread")]
async fn history_lists_every_state() {
    let desk = Desk::new().await;
    let history = desk.json(&["history", "case-17"]);
    let ids: Vec<&str> =
        history.as_array().expect("a list").iter().filter_map(|it| it["checkpoint"].as_str()).collect();
    assert_eq!(ids, desk.ids("case-17").await);
    let text = out(&desk.hier(&["history", "case-17"]));
    assert!(text.contains("count ×2"), "{text}");
    let first = desk.json(&["state", "case-17", "--checkpoint", ids[ids.len() - 1]]);
    assert_eq!((&first["step"], &first["values"]["log"]), (&json!(-1), &Value::Null));
    let after_check = history.as_array().and_then(|all| all.iter().find(|it| it["step"] == 1)).expect("step 1");
    let counting = desk.json(&["state", "case-17", "--checkpoint", after_check["checkpoint"].as_str().expect("an id")]);
    assert_eq!(counting["values"]["log"], json!([{ "text": "checked" }]));
    let done: Vec<_> =
        counting["tasks"].as_array().expect("tasks").iter().map(|task| (&task["node"], &task["done"])).collect();
    assert_eq!(done, [(&json!("count"), &json!(true)), (&json!("count"), &json!(true))]);
    assert_eq!(desk.json(&["history", "case-17", "--limit", "2"]).as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_names_get_the_nearest_one() {
    let desk = Desk::new().await;
    for command in [
        &["history", "case-71"][..],
        &["state", "case-71"],
        &["fork", "case-71", "x"],
        &["prune", "case-71", "--delete"],
        &["inbox", "list", "case-71"],
        &["inbox", "discard", "case-71", "1f0c1e3e-0000-6000-8000-000000000000"],
    ] {
        let output = desk.hier(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", err(&output));
        assert!(err(&output).contains("no thread named `case-71`; did you mean `case-17`?"), "{}", err(&output));
    }
    let id = "1f0c1e3e-0000-6000-8000-000000000000";
    let output = desk.hier(&["state", "case-17", "--checkpoint", id]);
    assert!(output.status.code() == Some(1) && err(&output).contains(id), "{}", err(&output));
    let output = desk.hier(&["history", "case-17", "--namespace", "ask"]);
    assert_eq!(output.status.code(), Some(1));
    let reason = "namespace `ask`; all its checkpoints are of the root graph: omit `--namespace`";
    assert!(err(&output).contains(reason), "{}", err(&output));
    assert_eq!(desk.ids("case-17").await.len(), 4);
}

#[test]
fn files_are_never_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.db");
    for command in
        [&["threads"][..], &["history", "t"], &["state", "t"], &["fork", "t", "u"], &["prune", "--keep", "1"]]
    {
        let output = hier(&missing, command);
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(err(&output).contains("does not exist"), "{}", err(&output));
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").expect("a file");
    assert!(err(&hier(&empty, &["threads"])).contains("is empty"));
    assert_eq!(std::fs::metadata(&empty).expect("the file").len(), 0);
    let text = folder.path().join("text.db");
    std::fs::write(&text, "no database at all, but long enough".repeat(50)).expect("a file");
    let output = hier(&text, &["threads"]);
    assert!(output.status.code() == Some(2) && err(&output).contains("not a SQLite database"), "{}", err(&output));
    assert_eq!(hier(folder.path(), &["threads"]).status.code(), Some(2));
}

#[test]
fn database_in_memory_is_refused() {
    for name in [":memory:", "sqlite::memory:"] {
        let output = hier(Path::new(name), &["threads"]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        let says = "`:memory:` is a database in the memory of one process, which other processes cannot read: give the path of a file";
        assert!(err(&output).contains(says), "{name}: {}", err(&output));
    }
}

#[test]
fn url_of_another_database_is_refused_without_its_password() {
    let output = hier(Path::new("mysql://me:sesame@localhost/desk"), &["threads"]);
    let says =
        "error: `mysql://…` is not the URL of a database of hier: give the path of a SQLite file, or `postgres://…`\n";
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(2), says));
}

/// A file with a write-ahead log that no process has open, on a read-only mount.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn database_on_a_read_only_mount_names_the_fix() {
    let desk = Desk::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, place) = (folder.path().join("desk.db"), folder.path().display());
    let log = desk.folder.path().join("desk.db-wal");
    std::fs::copy(desk.path(), &path).expect("a copy");
    std::fs::copy(log, folder.path().join("desk.db-wal")).expect("its log");
    let mount = format!("mount --bind {place} {place} && mount -o remount,ro,bind {place}");
    let run = |then: &str| {
        let script = format!("{mount} && {then}");
        Command::new("unshare").args(["--map-root-user", "--mount", "sh", "-c", &script]).output().expect("unshare")
    };
    if !run("true").status.success() {
        return eprintln!("skipped: this user cannot mount");
    }
    let threads = format!("{} threads --db {}", env!("CARGO_BIN_EXE_hier"), path.display());
    let output = run(&threads);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    let says = "its folder is read-only, so SQLite cannot create `-wal` and `-shm` files there: copy the file";
    assert!(err(&output).contains(says), "{}", err(&output));
    assert!(hier(&path, &["threads"]).status.success(), "it can be read where it can be written");
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_database_needs_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, key) = (folder.path().join("desk.db"), "07".repeat(32));
    let saver = Sqlite::options().encrypt(&Key::new([7; 32])).open(&path).await.expect("a file");
    let graph = Approval::compile().checkpointer(saver);
    let _ = graph.invoke(Case::update().amount(3.5)).thread("t").await.expect("a run");
    let locked = hier(&path, &["state", "t"]);
    assert!(
        locked.status.code() == Some(2) && err(&locked).contains("open the store with its key"),
        "{}",
        err(&locked)
    );
    let key_file = folder.path().join("key");
    std::fs::write(&key_file, format!("{key}\n")).expect("a file");
    let by_file = hier(&path, &["state", "t", "--key-file", &key_file.display().to_string()]);
    assert!(out(&by_file).contains("3.5"), "{}", err(&by_file));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hier"));
    let by_variable = command.args(["state", "t", "--db"]).arg(&path).env("HIER_KEY", &key).output().expect("it");
    assert!(out(&by_variable).contains("3.5"), "{}", err(&by_variable));
    std::fs::write(&key_file, "sesame").expect("a file");
    let wrong = hier(&path, &["state", "t", "--key-file", &key_file.display().to_string()]);
    assert!(wrong.status.code() == Some(2) && !err(&wrong).contains("sesame"), "{}", err(&wrong));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_cannot_harm_a_terminal() {
    let desk = Desk::new().await;
    desk.run("\u{1b}[2Jevil\u{202e}", Case::update()).await;
    for command in [&["threads"][..], &["state", "\u{1b}[2Jevil\u{202e}"], &["state", "\u{1b}[2Jevi"]] {
        let output = desk.hier(command);
        let all = out(&output) + &err(&output);
        assert!(all.contains("\\u{1b}[2Jevi") && !all.contains('\u{1b}') && !all.contains('\u{202e}'), "{all:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_output_is_not_an_error() {
    let desk = Desk::new().await;
    let path = desk.path().display().to_string();
    for arguments in [
        &["state", "case-17", "--db", &path][..],
        &["studio", "--addr", "127.0.0.1:0", "--db", &path],
        &["completions", "bash"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hier"));
        // The reader is gone before the command starts.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = command.args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().expect("it starts");
        let output = output.wait_with_output().expect("its end");
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(2), ""), "{arguments:?}");
    }
}

/// The names of threads and of the holders of leases come from users.
#[tokio::test(flavor = "multi_thread")]
async fn errors_cannot_harm_a_terminal() {
    use hier_core::checkpoint::Claim;
    use hier_core::graph::Signal;

    let desk = Desk::new().await;
    let graph = Approval::compile().checkpointer(desk.saver.clone());
    graph.send("case-17", Signal::new("paid", &17)).await.expect("it is sent");
    let id = desk.saver.inbox().expect("an inbox").messages("case-17").await.expect("a list")[0].message.id.to_string();
    let claim = Claim { holder: "\u{1b}[2Jevil\u{202e}".to_owned(), ..Claim::default() };
    let _lease = desk.saver.acquire("case-17", claim).await.expect("the thread");
    let text = err(&desk.hier(&["inbox", "discard", "case-17", &id]));
    assert!(text.contains("is being run by \\u{1b}[2Jevil\\u{202e}: ") && !text.contains('\u{202e}'), "{text:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn server_database_is_read_like_a_file() {
    let url = std::env::var("HIER_TEST_POSTGRES").expect("the URL of a server: run it with scripts/postgres.sh");
    let saver = hier_postgres::Postgres::options().schema("cli_threads").connect(&url).await.expect("a server");
    saver.migrate().await.expect("tables");
    let graph = Approval::compile().checkpointer(saver);
    let _ = graph.invoke(Case::update().amount(12.5)).thread("case-17").await.expect("a run");
    for name in [url.clone(), format!("postgres:{url}")] {
        let output = hier(Path::new(&name), &["state", "case-17", "--schema", "cli_threads"]);
        assert!(out(&output).contains("12.5"), "{}", err(&output));
    }
    let output = hier(Path::new(&url), &["threads", "--schema", "cli_nothing"]);
    assert!(output.status.code() == Some(2) && err(&output).contains("no tables"), "{}", err(&output));
}

/// Before anything is sent.
#[test]
fn missing_certificates_have_a_hint() {
    let nothing = tempfile::tempdir().expect("a folder");
    let none = nothing.path().join("none.pem");
    std::fs::write(&none, "").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hier"));
    command.args(["threads", "--db", "postgres://me:sesame@127.0.0.1:1/desk?sslmode=require"]);
    let output = command.env("SSL_CERT_FILE", &none).env("SSL_CERT_DIR", nothing.path()).output().expect("it starts");
    let received = err(&output);
    assert_eq!(output.status.code(), Some(2), "{received}");
    assert!(
        received.contains("Postgres `desk` at 127.0.0.1:1") && received.contains("`sslrootcert=FILE`"),
        "{received}"
    );
    assert!(received.contains("install `ca-certificates`") && !received.contains("sesame"), "{received}");
}
