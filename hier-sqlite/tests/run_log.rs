//! The log of a run, which holds records back, on a file that refuses some of them.

mod kit;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Commit, ListQuery, SaverError, Source, WriteRecord};
use hier_core::runs::{Claimed, EventBuffering, NewRun, Request, RunClaim, RunEnd, RunLog, RunStatus, RunStore};
use hier_sqlite::Sqlite;

/// The log of a run of thread `t` that a worker has claimed.
async fn claimed_log(store: &Arc<Sqlite>) -> (Claimed, RunLog) {
    store.driver().create_run(NewRun::new("t", "desk", Request::default()).create_thread()).await.expect("a run");
    let claim = RunClaim::new("desk 1", Duration::from_mins(1), ["desk".to_owned()]);
    let claimed = store.driver().claim_run(claim).await.expect("a store").expect("the run");
    let log = RunLog::new(store.clone(), claimed.lease.clone(), Some(claimed.run.id), EventBuffering::AsTheyCome);
    (claimed, log)
}

/// A worker's commit is stored in two parts, the second with the run's end. If the first is refused, nothing is stored.
#[tokio::test(flavor = "multi_thread")]
async fn records_after_a_refused_part_are_not_stored() {
    let store = Arc::new(Sqlite::in_memory().await.expect("a store"));
    let (claimed, log) = claimed_log(&store).await;
    // An inner graph builds on missing data. The last checkpoint of the root does not.
    let (gone, _) = kit::next(None, &[(0, false, b"gone".to_vec())], 2);
    let (_, mut inside) = kit::next(Some(&gone), &[(1, false, b"value".to_vec())], 2);
    if let WriteRecord::Checkpoint { namespace, .. } = &mut inside {
        *namespace = "inside".into();
    }
    let (_, last) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    let refused = log.commit(&claimed.lease, vec![inside, last].into()).await.expect_err("it builds on what is gone");
    assert!(matches!(refused, SaverError::Gone { .. }), "{refused:?}");
    log.finish(None, Some(RunEnd::new(claimed.run.id, RunStatus::Error))).await.expect("its end");
    assert_eq!(store.get("t", "", None).await.expect("a store"), None);
}

/// A run's input waits for its next commit. If that is refused, the thread still has the input, and nothing of the
/// commit. Side effects change nothing about this.
#[tokio::test(flavor = "multi_thread")]
async fn input_stays_stored_if_the_next_commit_is_refused() {
    for also in [None, Some(Box::default())] {
        let store = Arc::new(Sqlite::in_memory().await.expect("a store"));
        let (claimed, log) = claimed_log(&store).await;
        let (mut begins, mut input) = kit::next(None, &[(0, false, b"input".to_vec())], 2);
        if let WriteRecord::Checkpoint { checkpoint, .. } = &mut input {
            (checkpoint.source, checkpoint.agenda.start) = (Source::Input, true);
            begins = (**checkpoint).clone();
        }
        log.commit(&claimed.lease, vec![input].into()).await.expect("it waits");
        assert_eq!(store.get("t", "", None).await.expect("a store"), None, "it is stored with what comes next");
        let (gone, _) = kit::next(Some(&begins), &[(1, false, b"gone".to_vec())], 2);
        let (_, mut next) = kit::next(Some(&gone), &[(1, true, b"more".to_vec())], 2);
        if let WriteRecord::Checkpoint { checkpoint, .. } = &mut next {
            checkpoint.agenda.start = true;
        }
        let mut commit = Commit::new(vec![next]);
        commit.also = also;
        let refused = log.commit(&claimed.lease, commit).await.expect_err("it builds on what is gone");
        assert!(matches!(refused, SaverError::Gone { .. }), "{refused:?}");
        log.finish(None, Some(RunEnd::new(claimed.run.id, RunStatus::Error))).await.expect("its end");
        let stored = store.get("t", "", None).await.expect("a store").expect("the input");
        assert_eq!(stored.checkpoint, begins);
        assert_eq!(store.list(ListQuery::thread("t")).await.expect("a store").len(), 1);
    }
}

fn execute(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).expect("the file").execute_batch(sql).expect("a statement");
}

/// A read may have to store the records that wait. If the disk is full, they wait on.
#[tokio::test(flavor = "multi_thread")]
async fn records_that_a_read_cannot_store_are_stored_with_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let store = Arc::new(Sqlite::open(&path).await.expect("a new file"));
    let (claimed, log) = claimed_log(&store).await;
    let (first, record) = kit::next(None, &[(0, false, b"first".to_vec())], 2);
    store.commit(&claimed.lease, vec![record].into()).await.expect("a commit");
    // It has a value of the first checkpoint, which is not its parent, so only the store can read it.
    let (mut last, mut record) = kit::next(None, &[(1, false, b"last".to_vec())], 2);
    if let WriteRecord::Checkpoint { checkpoint, .. } = &mut record {
        checkpoint.versions = [first.id, last.id].into();
        last = (**checkpoint).clone();
    }
    log.commit(&claimed.lease, vec![record].into()).await.expect("it waits");
    execute(&path, "create trigger full before insert on blobs begin select raise(abort, 'the disk is full'); end");
    let failed = log.get("t", "", None).await.expect_err("a full disk");
    assert!(matches!(failed, SaverError::Database { .. }), "{failed:?}");
    execute(&path, "drop trigger full");
    log.finish(None, Some(RunEnd::new(claimed.run.id, RunStatus::Success))).await.expect("its end");
    let stored = store.get("t", "", None).await.expect("a store").expect("a checkpoint");
    assert_eq!(stored.checkpoint, last);
}
