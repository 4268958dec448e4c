//! Real servers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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

/// The way to a server, on which one answer can be lost.
pub(crate) struct Road {
    pub(crate) url: String,
    loses: Arc<AtomicBool>,
}

impl Road {
    /// To the server with this URL.
    pub(crate) async fn to(url: &str) -> Self {
        let (_, address) = url.split_once('@').expect("a URL");
        let (address, _) = address.split_once('/').expect("a URL");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let here = listener.local_addr().expect("an address").to_string();
        let (url, loses) = (url.replace(address, &here), Arc::new(AtomicBool::new(false)));
        let (address, lose) = (address.to_owned(), loses.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&address).await.expect("the server");
                tokio::spawn(carry(client, server, lose.clone()));
            }
        });
        Self { url, loses }
    }

    /// The next answer does not arrive, and the connection is closed.
    pub(crate) fn lose_one_answer(&self) {
        self.loses.store(true, Ordering::SeqCst);
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, loses: Arc<AtomicBool>) {
    let (mut asks, mut answers) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            Ok(length) = client.read(&mut asks) => match length {
                0 => return,
                _ => server.write_all(&asks[..length]).await.expect("the server"),
            },
            Ok(length) = server.read(&mut answers) => match length {
                0 => return,
                _ if loses.swap(false, Ordering::SeqCst) => return,
                _ => client.write_all(&answers[..length]).await.expect("the client"),
            },
            else => return,
        }
    }
}
