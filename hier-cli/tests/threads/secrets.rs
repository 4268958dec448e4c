//! Secret channels: hidden in the database of a program that the commands do not know, and in checkpoints of earlier versions.

use std::io::{BufRead, BufReader};

use super::studio::asked;
use super::*;

const CANARY: &str = "canary-7f3a-secret";
const DIGITS: &str = "0707070707070707070707070707070707070707070707070707070707070707";

mod before {
    use hier_core::prelude::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(super) struct Vault {
        pub(super) token: String,
        #[reducer(append)]
        pub(super) lengths: Vec<usize>,
    }

    graph! { pub(super) Keeper<Vault> = Graph { name: "vault", nodes: [renew, ask], edges: [START >> renew >> ask >> END] } }

    async fn renew(vault: &Vault) -> VaultUpdate {
        Vault::update().token(vault.token.clone())
    }

    async fn ask(run: &Run) -> hier_core::Result<VaultUpdate> {
        Ok(Vault::update().lengths([run.interrupt(&"how long?").await?]))
    }
}

mod after {
    use hier_core::prelude::*;

    #[derive(State, Clone, Default)]
    pub(super) struct Vault {
        #[channel(secret)]
        pub(super) token: String,
        #[reducer(append)]
        pub(super) lengths: Vec<usize>,
    }

    graph! { pub(super) Keeper<Vault> = Graph { name: "vault", nodes: [renew, ask], edges: [START >> renew >> ask >> END] } }

    async fn renew(vault: &Vault) -> VaultUpdate {
        Vault::update().token(vault.token.clone())
    }

    async fn ask(run: &Run) -> hier_core::Result<VaultUpdate> {
        Ok(Vault::update().lengths([run.interrupt(&"how long?").await?]))
    }
}

/// An encrypted database, with the key in a file.
struct Safe {
    folder: TempDir,
    saver: Sqlite,
}

impl Safe {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("key"), DIGITS).expect("a file");
        let key = Key::from_hex(DIGITS).expect("a key");
        let saver = Sqlite::options().encrypt(&key).open(folder.path().join("desk.db")).await.expect("a database");
        Self { folder, saver }
    }

    /// Begins a thread with the program in which the channel is not secret.
    async fn begin_before(&self) {
        let graph = before::Keeper::compile().checkpointer(self.saver.clone());
        let _ = graph.invoke(before::Vault::update().token(CANARY)).thread("t").await.expect("a run");
    }

    fn hier(&self, arguments: &[&str]) -> String {
        let key = self.folder.path().join("key");
        let key = key.to_str().expect("a path");
        let mut command = Command::new(env!("CARGO_BIN_EXE_hier"));
        command.args(arguments).args(["--key-file", key, "--db"]).arg(self.folder.path().join("desk.db"));
        let output = command.current_dir(self.folder.path()).output().expect("the command starts");
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        format!("{}{}", out(&output), err(&output))
    }

    async fn checkpoints(&self) -> Vec<String> {
        let list = self.saver.list(ListQuery::thread("t")).await.expect("a list");
        list.iter().map(|listed| listed.checkpoint.id.to_string()).collect()
    }

    /// All that the commands show of the thread.
    async fn shown(&self) -> String {
        let mut text =
            self.hier(&["threads"]) + &self.hier(&["history", "t"]) + &self.hier(&["history", "t", "--json"]);
        for id in self.checkpoints().await {
            text += &self.hier(&["state", "t", "--checkpoint", &id]);
            text += &self.hier(&["state", "t", "--checkpoint", &id, "--json"]);
        }
        text
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_is_in_no_output() {
    let safe = Safe::new().await;
    let graph = after::Keeper::compile().checkpointer(safe.saver.clone());
    let _ = graph.invoke(after::Vault::update().token(CANARY)).thread("t").await.expect("a run");
    let shown = safe.shown().await;
    assert!(shown.contains("how long?"), "{shown}");
    assert!(!shown.contains(CANARY), "{shown}");
    safe.hier(&["fork", "t", "copy"]);
    let copy = safe.hier(&["state", "copy", "--json"]);
    assert!(copy.contains("how long?") && !copy.contains(CANARY), "{copy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn channel_that_is_secret_now_is_hidden_in_older_checkpoints() {
    let safe = Safe::new().await;
    safe.begin_before().await;
    assert!(safe.shown().await.contains(CANARY));
    let graph = after::Keeper::compile().checkpointer(safe.saver.clone());
    let _ = graph.invoke(hier_core::graph::Command::resume(3)).thread("t").await.expect("a run");
    let shown = safe.shown().await;
    assert!(shown.contains("lengths"), "{shown}");
    assert!(!shown.contains(CANARY), "{shown}");
    for checkpoint in safe.checkpoints().await {
        let shown = studio_shows(&safe, &format!("checkpoints/{checkpoint}"));
        assert!(!shown.to_string().contains(CANARY), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_file_hides_what_is_secret_now() {
    let safe = Safe::new().await;
    safe.begin_before().await;
    let lock = hier_testkit::lock::LockBuilder::new().graph(&after::Keeper).build();
    std::fs::write(safe.folder.path().join("graph.lock"), lock.to_string()).expect("a file");
    let shown = safe.hier(&["state", "t", "--json"]);
    assert!(shown.contains("how long?") && !shown.contains(CANARY), "{shown}");
    std::fs::rename(safe.folder.path().join("graph.lock"), safe.folder.path().join("next.lock")).expect("a file");
    assert!(safe.hier(&["state", "t"]).contains(CANARY));
    assert!(!safe.hier(&["state", "t", "--lock", "next.lock"]).contains(CANARY));
}

/// Returns the thread as the studio shows it without the program.
fn studio_shows(safe: &Safe, path: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hier"));
    command.args(["studio", "--addr", "127.0.0.1:0", "--key-file"]).arg(safe.folder.path().join("key")).arg("--db");
    let mut studio =
        command.arg(safe.folder.path().join("desk.db")).stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut line = String::new();
    BufReader::new(studio.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    let shown = asked(&address, &format!("GET /studio/api/threads/t/{path}"), "");
    studio.kill().expect("it ends");
    studio.wait().expect("it has ended");
    shown
}
