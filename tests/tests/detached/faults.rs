//! Stores that fail when a worker adds the run of a subagent.

use std::sync::{Arc, Mutex};

use hier_core::checkpoint::ListQuery;
use hier_core::runs::{Changed, RunQuery, RunStore, RunsError, ThreadAction, ThreadChange};
use hier_core::{Durability, async_trait};
use hier_testkit::{Layered, RunsLayer, SaverLayer};

use crate::site::on_each;

/// The behaviour of a store when a worker adds the run of a subagent.
#[derive(Clone, Copy)]
enum Fault {
    /// Refuses the run.
    Refuses,
    /// Deletes the thread of the supervisor before.
    Deletes,
}

struct Faulty(Arc<dyn RunStore>, Fault);

impl Fault {
    fn of(self, store: Arc<dyn RunStore>) -> Arc<dyn RunStore> {
        Arc::new(Layered(Faulty(store, self)))
    }
}

impl SaverLayer for Faulty {
    type Inner = dyn RunStore;

    fn inner(&self) -> &dyn RunStore {
        &*self.0
    }
}

#[async_trait]
impl RunsLayer for Faulty {
    fn runs_store(&self) -> &dyn RunStore {
        &*self.0
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        if matches!(change.action, ThreadAction::Add(..)) && change.thread.starts_with("t/background/") {
            match self.1 {
                Fault::Refuses => return Err(RunsError::Invalid("there is no room".to_owned())),
                Fault::Deletes => assert!(self.0.remove_thread("t").await?),
            }
        }
        self.0.run_backend().change(change).await
    }
}

/// The log of `tracing` on this thread.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn run_that_cannot_be_added_does_not_stop_the_turn_and_is_logged() {
    // If the subscriber of this thread were the only one, tracing would drop each message that another thread logs first.
    let _ = tracing_subscriber::fmt().with_writer(std::io::sink).try_init();
    let logs = Logs::default();
    let written = logs.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || logs.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let refuses = |store| Fault::Refuses.of(store);
    on_each(refuses, async |site| {
        written.0.lock().unwrap().clear();
        site.turn("Dig.").await;
        assert!(site.runs_of_subagents().await.is_empty());
        let log = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let line = log.lines().find(|line| line.contains("failed to add a run")).expect("it is logged");
        let told =
            ["t/background/miner-1-", "foreman", "there is no room", "the next run of its supervisor: fix the error"];
        assert!(told.iter().all(|part| line.contains(part)), "{line}");
        site.mine.gate.add_permits(1);
        assert_eq!(site.turn("Wait.").await[1], "`miner-1` reported.\ndone");
    })
    .await;
}

#[tokio::test]
async fn thread_that_is_deleted_while_its_turn_ends_leaves_nothing() {
    let deletes = |store| Fault::Deletes.of(store);
    on_each(deletes, async |site| {
        let run = site.start_turn("Dig.", Durability::Async).await;
        while site.store.run(run.id).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
        // The worker stores the end of the run that it has begun, or finds it deleted.
        site.stop_workers().await;
        assert!(site.store.runs(RunQuery::default()).await.unwrap().is_empty());
        assert!(site.store.list(ListQuery::default()).await.unwrap().is_empty());
        assert_eq!(site.mine.dug(), 0);
    })
    .await;
}
