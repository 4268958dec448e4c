//! Processes that change the tokens at once, with two stores over one database file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hier_core::async_trait;
use hier_core::store::{Op, OpResult, Store, StoreError};
use hier_mcp::{McpAuth, McpError, SealKey};
use hier_sqlite::SqliteStore;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::server::{Hold, REDIRECT, Server, serve};
use crate::{authorized, client, read, visit};

/// A store that reports when a caller waits, which reads the same item again and again.
#[derive(Clone)]
struct Watched {
    store: SqliteStore,
    /// The number of reads of each item, while they are counted.
    reads: Arc<Mutex<Option<HashMap<String, usize>>>>,
    waits: Arc<Notify>,
    is_down: Arc<AtomicBool>,
}

#[async_trait]
impl Store for Watched {
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(StoreError::Invalid("the disk is gone".to_owned()));
        }
        if let (Some(reads), Some(Op::Get { key, .. })) = (&mut *self.reads.lock().unwrap(), ops.first()) {
            let count = reads.entry(key.clone()).or_default();
            *count += 1;
            if *count == 5 {
                self.waits.notify_one();
            }
        }
        self.store.batch(ops).await
    }

    async fn sweep(&self) -> Result<u64, StoreError> {
        self.store.sweep().await
    }
}

/// The authorization of one process.
struct Process {
    auth: McpAuth,
    store: Watched,
}

impl Process {
    async fn start(url: &str, folder: &Path) -> Self {
        let store = SqliteStore::open(folder.join("tokens.db")).await.unwrap();
        let store = Watched { store, reads: Arc::default(), waits: Arc::default(), is_down: Arc::default() };
        let auth = McpAuth::builder(url, REDIRECT).store(store.clone(), SealKey::new([7; 32])).build().unwrap();
        Self { auth, store }
    }

    /// Starts work that changes the tokens, and returns once it waits or has ended.
    async fn change(
        &self,
        work: impl Future<Output = Result<(), McpError>> + Send + 'static,
    ) -> JoinHandle<Result<(), McpError>> {
        *self.store.reads.lock().unwrap() = Some(HashMap::new());
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let work = tokio::spawn(async move {
            let result = work.await;
            let _ = ended.send(());
            result
        });
        tokio::select! {
            _ = has_ended => {}
            () = self.store.waits.notified() => {}
        }
        *self.store.reads.lock().unwrap() = None;
        work
    }
}

/// Starts a refresh of a process, and returns once it waits in the server.
async fn refreshing(
    server: &Server,
    url: &str,
    process: &Process,
) -> (Arc<Hold>, JoinHandle<Result<String, McpError>>) {
    let hold = Arc::new(Hold::default());
    {
        let mut known = server.lock().unwrap();
        known.access.clear();
        known.hold = Some(hold.clone());
    }
    let client = client(url, &process.auth);
    let reading = tokio::spawn(async move { read(&client).await });
    hold.arrived.notified().await;
    (hold, reading)
}

#[tokio::test]
async fn refresh_does_not_replace_the_tokens_of_a_later_authorization() {
    let (server, url) = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Process::start(&url, folder.path()).await, Process::start(&url, folder.path()).await);
    authorized(&first.auth).await;
    let returned = visit(&second.auth.authorization_url().await.unwrap()).await;

    let (hold, reading) = refreshing(&server, &url, &first).await;
    let auth = second.auth.clone();
    let finishing = second.change(async move { auth.finish(&returned).await }).await;
    hold.open.notify_one();
    assert_eq!(reading.await.unwrap().unwrap(), "Be kind.");
    finishing.await.unwrap().unwrap();

    for process in [&first, &second, &Process::start(&url, folder.path()).await] {
        assert_eq!(read(&client(&url, &process.auth)).await.unwrap(), "Be kind.");
        let known = server.lock().unwrap();
        let (_, token) = known.granted.iter().rfind(|(grant, _)| grant == "authorization_code").unwrap();
        assert_eq!(known.used, *token);
    }
    assert_eq!(server.lock().unwrap().refused, 0);
}

#[tokio::test]
async fn refresh_does_not_bring_back_forgotten_tokens() {
    let (server, url) = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Process::start(&url, folder.path()).await, Process::start(&url, folder.path()).await);
    authorized(&first.auth).await;
    let (hold, reading) = refreshing(&server, &url, &first).await;
    // Another task of the same process forgets the tokens, and another process does.
    let [own, other] = [&first, &second].map(|process| process.auth.clone());
    let forgetting = tokio::spawn(async move { own.forget().await });
    let also = second.change(async move { other.forget().await }).await;
    hold.open.notify_one();
    let _ = reading.await.unwrap();
    forgetting.await.unwrap().unwrap();
    also.await.unwrap().unwrap();
    for process in [&first, &second] {
        assert!(!process.auth.is_authorized().await.unwrap());
    }
}

#[tokio::test]
async fn store_that_cannot_be_reached_is_a_passing_error() {
    let (server, url) = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(&url, folder.path()).await;
    authorized(&process.auth).await;
    let client = client(&url, &process.auth);
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    for is_expired in [false, true] {
        if is_expired {
            server.lock().unwrap().access.clear();
        }
        process.store.is_down.store(true, Ordering::Relaxed);
        for failed in [read(&client).await.unwrap_err(), process.auth.forget().await.unwrap_err()] {
            assert!(failed.is_transient() && failed.to_string().contains("the disk is gone"), "{failed}");
        }
        process.store.is_down.store(false, Ordering::Relaxed);
        assert_eq!(read(&client).await.unwrap(), "Be kind.");
    }
    let known = server.lock().unwrap();
    assert_eq!((known.refreshed, known.refused), (1, 0));
}
