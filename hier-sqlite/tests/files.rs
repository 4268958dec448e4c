//! Files that an operator deletes or replaces under a running process, and disks that are full or read-only. A commit that
//! was acknowledged is kept, or a later call names the file and the fix.
#![cfg(target_os = "linux")]

mod kit;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Claim, Lease, ListQuery, SaverError};
use hier_core::store::StoreExt;
use hier_sqlite::{Sqlite, SqliteStore};
use serde_json::json;
use tempfile::TempDir;

/// The environment variable with the database of another process.
const DATABASE: &str = "HIER_SQLITE_DATABASE";

fn database() -> PathBuf {
    PathBuf::from(std::env::var_os(DATABASE).expect("a database"))
}

fn log_of(path: &Path, end: &str) -> PathBuf {
    path.with_extension(format!("db{end}"))
}

async fn open(path: &Path) -> (Sqlite, Lease) {
    let saver = Sqlite::open(path).await.expect("the file");
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    (saver, lease)
}

async fn commit(saver: &Sqlite, lease: &Lease, value: Vec<u8>) -> Result<(), SaverError> {
    saver.commit(lease, vec![kit::next(None, &[(0, false, value)], 1).1].into()).await.map(drop)
}

/// The number of commits in a file that no process has open.
async fn stored(path: &Path) -> usize {
    let saver = Sqlite::open(path).await.expect("the file");
    saver.check().await.expect("a whole file");
    let commits = saver.list(ListQuery::thread("t")).await.expect("a list").len();
    saver.close().await.expect("a close");
    commits
}

/// Another process: this program, whose test `process` does what its standard input says.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child_process", "--ignored", "--nocapture"])
            .env(DATABASE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let (input, output) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        Self { child, input, output: BufReader::new(output) }
    }

    /// Returns the answer to a command.
    fn call(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").expect("it runs");
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).expect("its output"), 0, "it answers `{command}`");
            if let Some((_, answer)) = line.split_once("answer: ") {
                return answer.trim_end().to_owned();
            }
        }
    }

    /// Starts a process on a new file, in a folder that exists until the test ends, and stores commits.
    fn on_new_file(commits: usize) -> (TempDir, PathBuf, Self) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("desk.db");
        let mut process = Self::start(&path);
        process.commit(commits);
        (folder, path, process)
    }

    fn commit(&mut self, times: usize) {
        for _ in 0..times {
            assert_eq!(self.call("commit"), "done");
        }
    }

    fn answers(&mut self, command: &str, says: &[&str]) {
        let answer = self.call(command);
        assert!(says.iter().all(|part| answer.contains(part)), "{command}: {answer}");
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("its end");
    }

    fn close(mut self, says: &str) {
        self.answers("close", &[says]);
        assert!(self.child.wait().expect("its end").success());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process of the other tests"]
async fn child_process() {
    let path = database();
    let (saver, lease) = open(&path).await;
    let answer = |done: Result<(), SaverError>| {
        println!("answer: {}", done.map_or_else(|error| error.to_string(), |()| "done".to_owned()));
    };
    for line in std::io::stdin().lines() {
        match &*line.expect("a line") {
            "commit" => answer(commit(&saver, &lease, b"value".to_vec()).await),
            "list" => answer(saver.list(ListQuery::thread("t")).await.map(drop)),
            _ => break,
        }
    }
    answer(saver.close().await);
}

#[tokio::test]
async fn deleted_log_loses_no_acknowledged_commit() {
    for end in ["-wal", "-shm"] {
        let (_folder, path, mut process) = Process::on_new_file(3);
        fs::remove_file(log_of(&path, end)).expect("the log");
        let says = format!("desk.db{end}` was deleted");
        process.answers("commit", &[&says, "stop the program without killing it"]);
        process.answers("list", &[&says]);
        process.kill();
        assert_eq!(stored(&path).await, 3, "{end}");
    }
}

#[tokio::test]
async fn log_of_another_process_is_kept() {
    let (folder, path, mut process) = Process::on_new_file(3);
    // A tool deletes the log, and another process creates a new one.
    let begun = folder.path().join("begun.db");
    fs::copy(&path, &begun).expect("a copy");
    for end in ["-wal", "-shm"] {
        fs::rename(log_of(&path, end), log_of(&begun, end)).expect("the log");
    }
    let mut other = Process::start(&path);
    other.commit(2);
    process.answers("commit", &["desk.db-wal` was deleted, moved or replaced", "put it back, or restore a backup"]);
    process.close("deleted, moved or replaced");
    other.commit(2);
    other.kill();
    assert_eq!((stored(&path).await, stored(&begun).await), (4, 3));
}

/// The commits are only in the log, which cannot be written back: another process may have changed the file.
#[tokio::test]
async fn moved_log_with_a_replaced_index_is_to_be_put_back() {
    let (folder, path, mut process) = Process::on_new_file(3);
    let (log, index) = (log_of(&path, "-wal"), log_of(&path, "-shm"));
    let moved = folder.path().join("moved");
    fs::rename(&log, &moved).expect("the log");
    fs::remove_file(&index).expect("the index");
    fs::write(&index, "").expect("another index");
    process.answers("commit", &["desk.db-wal` was deleted, moved or replaced", "put it back, or restore a backup"]);
    process.kill();
    fs::rename(&moved, &log).expect("the log");
    assert_eq!(stored(&path).await, 3);
}

#[tokio::test]
async fn other_process_with_a_new_index_continues_the_log() {
    let (_folder, path, mut process) = Process::on_new_file(3);
    fs::remove_file(log_of(&path, "-shm")).expect("the index");
    let mut other = Process::start(&path);
    other.commit(1);
    process.answers("commit", &["desk.db-shm` was deleted, moved or replaced", "restart the program"]);
    other.commit(1);
    process.close("deleted, moved or replaced");
    other.commit(1);
    other.kill();
    assert_eq!(stored(&path).await, 6);
}

#[tokio::test]
async fn deleted_or_replaced_file_is_reported_and_its_replacement_kept() {
    let (folder, path, mut process) = Process::on_new_file(3);
    let backup = folder.path().join("backup.db");
    let mut earlier = Process::start(&backup);
    earlier.commit(2);
    earlier.close("done");
    fs::remove_file(&path).expect("the file");
    let says = ["desk.db", "deleted, moved or replaced while it was open", "put the file back, or restart the program"];
    process.answers("commit", &says);
    process.answers("list", &says);
    assert!(!path.exists());
    fs::rename(&backup, &path).expect("a backup");
    process.answers("commit", &says);
    process.answers("list", &says);
    process.kill();
    assert_eq!(stored(&path).await, 2, "the log of the deleted file was not applied to the backup");
}

#[tokio::test]
async fn moved_file_takes_its_commits_along() {
    let (folder, path, process) = Process::on_new_file(3);
    let moved = folder.path().join("moved.db");
    fs::rename(&path, &moved).expect("the file");
    process.close("deleted, moved or replaced");
    assert_eq!((stored(&moved).await, path.exists()), (3, false));
}

/// Runs an ignored test of this program where the folder of its database is another mount, unless this user cannot mount.
fn mounted(mount: &str, test: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let program = std::env::current_exe().expect("this program");
    let run = |then: &str| {
        let script = format!("cd / && {mount} && {then}");
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "sh", "-c", &script])
            .env("FOLDER", folder.path())
            .env(DATABASE, &path);
        command.env("PROGRAM", &program).output().expect("unshare")
    };
    if !run("true").status.success() {
        eprintln!("skipped: this user cannot mount");
        return;
    }
    let output = run(&format!("exec \"$PROGRAM\" --exact {test} --ignored --nocapture"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
}

#[test]
fn full_disk_names_the_fix_and_keeps_earlier_commits() {
    let mount = "mount -t tmpfs -o size=2m none \"$FOLDER\"";
    mounted(mount, "child_process_on_a_small_disk");
}

#[tokio::test]
#[ignore = "a process of another test"]
async fn child_process_on_a_small_disk() {
    let path = database();
    let filler = path.with_extension("filler");
    fs::write(&filler, vec![1; 512 << 10]).expect("some space");
    let (saver, lease) = open(&path).await;
    let mut acknowledged = 0;
    let mut fill = async || loop {
        match commit(&saver, &lease, vec![acknowledged; 100 << 10]).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break (error.to_string(), acknowledged),
        }
    };
    for _ in 0..2 {
        let (error, _) = fill().await;
        assert!(error.contains("desk.db") && error.contains("free space on its disk, and repeat the call"), "{error}");
    }
    fs::remove_file(&filler).expect("the filler");
    let (_, acknowledged) = fill().await;
    let listed = saver.list(ListQuery::thread("t")).await.expect("a list").len();
    assert_eq!((listed, listed > 5), (usize::from(acknowledged), true));
    saver.close().await.expect("a close");
    assert_eq!(stored(&path).await, listed);
}

#[test]
fn read_only_folder_names_the_fix() {
    let mount = "mount --bind \"$FOLDER\" \"$FOLDER\" && mount -o remount,ro,bind \"$FOLDER\"";
    mounted(mount, "child_process_in_a_read_only_folder");
}

#[tokio::test]
#[ignore = "a process of another test"]
async fn child_process_in_a_read_only_folder() {
    let path = database();
    let error = Sqlite::open(&path).await.expect_err("a read-only folder").to_string();
    assert!(
        error.contains("desk.db") && error.contains("check that its folder exists, and check the permissions"),
        "{error}"
    );
}

/// Another process writes for longer than a call waits.
#[tokio::test]
async fn locked_file_names_the_fix_and_stores_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::options().busy_timeout(Duration::from_millis(20)).open(&path).await.expect("the file");
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let other = rusqlite::Connection::open(&path).expect("the file");
    other.execute_batch("begin immediate").expect("a lock");
    let error = commit(&saver, &lease, vec![1]).await.expect_err("the file is locked").to_string();
    for part in ["desk.db", "locked by another process", "stored nothing", "raise `SqliteOptions::busy_timeout`"] {
        assert!(error.contains(part), "{error}");
    }
    other.execute_batch("rollback").expect("no lock");
    assert!(saver.list(ListQuery::thread("t")).await.expect("a list").is_empty());
    commit(&saver, &lease, vec![2]).await.expect("the file is free");
}

/// No item is lost without an error, and the file that replaces the open file keeps its items.
#[tokio::test]
async fn store_reports_a_deleted_or_replaced_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, backup) = (folder.path().join("desk.db"), folder.path().join("backup.db"));
    let store = SqliteStore::open(&path).await.expect("a new file");
    store.put(["a"], "k", &json!({ "n": 1 })).await.expect("a put");
    SqliteStore::open(&backup).await.expect("a new file").put(["a"], "k", &json!({ "n": 2 })).await.expect("a put");
    fs::remove_file(&path).expect("the file");
    let refused = async || {
        let error = store.put(["a"], "k", &json!({ "n": 3 })).await.expect_err("the file is gone").to_string();
        assert!(error.contains("desk.db` cannot be used: it was deleted, moved or replaced while"), "{error}");
    };
    refused().await;
    refused().await;
    assert!(!path.exists());
    fs::rename(&backup, &path).expect("a backup");
    refused().await;
    let again = SqliteStore::open(&path).await.expect("the backup");
    assert_eq!(again.get(["a"], "k").await.expect("a read").expect("the item").value["n"], 2);
}
