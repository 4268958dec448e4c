//! Real servers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The URL of the server for tests.
pub(crate) fn server() -> String {
    std::env::var("HIER_TEST_POSTGRES")
        .expect("`HIER_TEST_POSTGRES`, the URL of a server: run it with scripts/postgres.sh")
}

/// A connection past what is tested.
pub(crate) async fn connected(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server");
    tokio::spawn(connection);
    client
}

/// The number of statements on this schema that wait for a lock in the server.
pub(crate) async fn blocked(watch: &tokio_postgres::Client, schema: &str) -> i64 {
    let sql = format!(
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%\"{schema}\".%'"
    );
    watch.query_one(&sql, &[]).await.expect("the server").get(0)
}

/// A separate server that can be killed.
pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    pub(crate) url: String,
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres.sh");

fn script(action: &str, folder: &Path) -> Option<String> {
    let done = Command::new(SCRIPT).arg(action).arg(folder).output().expect("the script");
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder").keep();
        let url = script("start", &folder).expect("a server");
        Self { folder, url }
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

/// A pgbouncer before a server: each transaction may get another connection.
pub(crate) struct Bouncer {
    folder: PathBuf,
    pub(crate) url: String,
}

impl Bouncer {
    /// Before the server for tests.
    pub(crate) fn start() -> Self {
        let server = server();
        let folder = tempfile::tempdir().expect("a folder").keep();
        let done = Command::new(SCRIPT).arg("pool").arg(&folder).arg(server).output().expect("the script");
        let received = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{received}");
        Self { folder, url: String::from_utf8_lossy(&done.stdout).trim().to_owned() }
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        script("unpool", &self.folder);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The way to a server, on which things go wrong.
pub(crate) struct Road {
    pub(crate) url: String,
    state: Arc<State>,
}

/// The faults of the proxy.
#[derive(Default)]
struct State {
    loses_answer: AtomicBool,
    /// Connections before this number carry nothing any more, and are not closed.
    silent_before: AtomicUsize,
    connections: AtomicUsize,
    holds_answers: AtomicBool,
    loses_held: AtomicBool,
    held: Notify,
    goes_on: Notify,
    /// The number of statements, or groups sent as one, that the server has executed.
    round_trips: AtomicUsize,
    /// The number of statements whose text was sent.
    texts: AtomicUsize,
}

impl Road {
    /// To the server with this URL.
    pub(crate) async fn to(url: &str) -> Self {
        let (_, address) = url.split_once('@').expect("a URL");
        let (address, _) = address.split_once('/').expect("a URL");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let here = listener.local_addr().expect("an address").to_string();
        let (url, state) = (url.replace(address, &here), Arc::new(State::default()));
        let (address, own) = (address.to_owned(), state.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&address).await.expect("the server");
                let number = own.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(carry(client, server, number, own.clone()));
            }
        });
        Self { url, state }
    }

    /// The next answer does not arrive, and the connection is closed.
    pub(crate) fn lose_one_answer(&self) {
        self.state.loses_answer.store(true, Ordering::SeqCst);
    }

    /// Connections that there are carry nothing any more, and are not closed. New ones do.
    pub(crate) fn silence_connections(&self) {
        let all = self.state.connections.load(Ordering::SeqCst);
        self.state.silent_before.store(all, Ordering::SeqCst);
    }

    /// No connection carries anything.
    pub(crate) fn silence(&self) {
        self.state.silent_before.store(usize::MAX, Ordering::SeqCst);
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// The number of round trips since the last call.
    pub(crate) fn round_trips(&self) -> usize {
        self.state.round_trips.swap(0, Ordering::SeqCst)
    }

    /// The number of planned statements since the last call.
    pub(crate) fn texts(&self) -> usize {
        self.state.texts.swap(0, Ordering::SeqCst)
    }

    /// From now on answers wait.
    pub(crate) fn hold_answers(&self) {
        self.state.holds_answers.store(true, Ordering::SeqCst);
    }

    /// Until the server has done something and its answer waits.
    pub(crate) async fn answer_is_held(&self) {
        self.state.held.notified().await;
    }

    /// The answer that waits does not arrive, and its connection is closed. Others arrive again.
    pub(crate) fn lose_the_held_answer(&self) {
        self.state.loses_held.store(true, Ordering::SeqCst);
        self.let_answers_go();
    }

    /// The answers that wait do not arrive, and their connections stay open. Others arrive again.
    pub(crate) fn keep_held_answers(&self) {
        self.state.holds_answers.store(false, Ordering::SeqCst);
    }

    /// Lets answers arrive again, the delayed ones first.
    pub(crate) fn let_answers_go(&self) {
        self.state.holds_answers.store(false, Ordering::SeqCst);
        self.state.goes_on.notify_waiters();
    }
}

/// The messages in the bytes of one side, however they are cut.
#[derive(Default)]
struct Messages(Vec<u8>);

impl Messages {
    /// From a client, whose first message has no kind.
    fn of_client() -> Self {
        Self(vec![0])
    }

    /// Counts the messages of this kind.
    fn count(&mut self, bytes: &[u8], wanted: u8) -> usize {
        self.0.extend_from_slice(bytes);
        let (mut at, mut count) = (0, 0);
        while let Some(&[kind, a, b, c, d]) = self.0.get(at..at + 5) {
            let end = at + 1 + u32::from_be_bytes([a, b, c, d]) as usize;
            if end > self.0.len() {
                break;
            }
            count += usize::from(kind == wanted);
            at = end;
        }
        self.0.drain(..at);
        count
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, number: usize, state: Arc<State>) {
    let (mut asks, mut answers) = (vec![0; 65_536], vec![0; 65_536]);
    let (mut asked, mut answered) = (Messages::of_client(), Messages::default());
    loop {
        if number < state.silent_before.load(Ordering::SeqCst) {
            // Both ends stay open.
            return std::future::pending().await;
        }
        tokio::select! {
            Ok(length) = client.read(&mut asks) => match length {
                0 => return,
                _ if number < state.silent_before.load(Ordering::SeqCst) => {}
                _ => {
                    state.texts.fetch_add(asked.count(&asks[..length], b'P'), Ordering::SeqCst);
                    // A server that was killed.
                    if server.write_all(&asks[..length]).await.is_err() { return }
                }
            },
            Ok(length) = server.read(&mut answers) => {
                if length == 0 || state.loses_answer.swap(false, Ordering::SeqCst) {
                    return;
                }
                state.round_trips.fetch_add(answered.count(&answers[..length], b'Z'), Ordering::SeqCst);
                let goes_on = state.goes_on.notified();
                if state.holds_answers.load(Ordering::SeqCst) {
                    state.held.notify_one();
                    goes_on.await;
                    if state.loses_held.swap(false, Ordering::SeqCst) {
                        return;
                    }
                }
                // The caller may be dropped.
                if client.write_all(&answers[..length]).await.is_err() { return }
            },
            else => return,
        }
    }
}
