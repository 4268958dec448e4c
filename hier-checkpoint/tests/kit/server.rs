//! Real servers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The server for tests; says so if there is none.
pub(crate) fn server() -> Option<String> {
    let url = std::env::var("HIER_TEST_POSTGRES").ok();
    if url.is_none() {
        println!("SKIPPED: set HIER_TEST_POSTGRES to the URL of a server, or use `scripts/postgres.sh with …`");
    }
    url
}

/// A server of its own, to be killed.
pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    pub(crate) url: String,
}

fn script(action: &str, folder: &Path) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/postgres.sh");
    let done = Command::new(script).arg(action).arg(folder).output().expect("the script");
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

impl Server {
    pub(crate) fn start() -> Option<Self> {
        // Only where the others run as well.
        server()?;
        let folder = tempfile::tempdir().expect("a folder").keep();
        let url = script("start", &folder)?;
        Some(Self { folder, url })
    }

    /// From now on only encrypted connections are let in; the file with the root of the server's certificate.
    pub(crate) fn encrypt(&self) -> String {
        script("tls", &self.folder).expect("certificates");
        self.crash();
        self.start_again();
        self.folder.join("root.pem").display().to_string()
    }

    pub(crate) fn crash(&self) {
        script("crash", &self.folder).expect("a crash");
    }

    pub(crate) fn start_again(&self) {
        assert_eq!(script("start", &self.folder).as_ref(), Some(&self.url));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        script("crash", &self.folder);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
