//! The storage of the threads: a SQLite file, or a Postgres server that can be killed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use hier_core::checkpoint::Checkpointer;
use hier_core::runs::RunStore;
use hier_postgres::Postgres;
use hier_sqlite::Sqlite;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A database of this test, and a folder for its files.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    server: Option<Server>,
    pub(crate) runtime: Runtime,
}

/// A server of this test.
struct Server {
    folder: PathBuf,
    url: String,
}

/// Opens the place of a [`Place::name`].
pub(crate) async fn open(name: &str) -> Arc<dyn Checkpointer> {
    if let Some(("sqlite", path)) = name.split_once(':') {
        return Arc::new(Sqlite::open(path).await.expect("the file can be opened"));
    }
    let saver = Postgres::connect(name).await.expect("the server answers");
    saver.migrate().await.expect("the tables are made");
    Arc::new(saver)
}

/// Opens it as a store of runs.
pub(crate) async fn open_runs(name: &str) -> Arc<dyn RunStore> {
    if let Some(("sqlite", path)) = name.split_once(':') {
        return Arc::new(Sqlite::open(path).await.expect("the file can be opened"));
    }
    let store = Postgres::connect(name).await.expect("the server answers");
    store.migrate().await.expect("the tables are made");
    Arc::new(store)
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), server: None, runtime: runtime() }
    }

    pub(crate) fn postgres() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let of_server = folder.path().join("server");
        open_to_all(folder.path());
        let url = script("start", &of_server);
        let server = Some(Server { folder: of_server, url });
        Self { folder, server, runtime: runtime() }
    }

    /// The database as it is named on command lines.
    pub(crate) fn name(&self) -> String {
        match &self.server {
            Some(server) => server.url.clone(),
            None => format!("sqlite:{}", self.file().display()),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("threads.db")
    }

    /// Kills the server, and starts it again.
    pub(crate) fn crash_server(&self) {
        let Some(server) = &self.server else { return };
        script("crash", &server.folder);
        let url = script("start", &server.folder);
        assert_eq!(url, server.url, "it is where it was");
    }

    /// Looks whether the database is whole.
    pub(crate) fn check(&self) {
        if self.server.is_none() {
            self.runtime.block_on(async {
                let saver = Sqlite::open(self.file()).await.expect("the file can be opened");
                saver.check().await.expect("the file is whole");
            });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            script("stop", &server.folder);
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The server may run as another user.
fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("the folder is ours");
}

/// Runs the script that starts and stops servers, and returns its output.
fn script(what: &str, folder: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/postgres.sh");
    let output = Command::new(script).arg(what).arg(folder).output().expect("the script can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
