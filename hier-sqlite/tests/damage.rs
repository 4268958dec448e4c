//! Damaged, foreign and manipulated files are refused with an error, and nothing panics.

mod kit;

use std::path::Path;

use hier_core::checkpoint::{Checkpointer, Claim, ListQuery, Prune, SaverError, ThreadAdmin};
use hier_sqlite::Sqlite;
use rusqlite::Connection;

async fn unusable(path: impl AsRef<Path>, says: &str) {
    match Sqlite::open(path.as_ref()).await {
        Err(SaverError::Unusable { place, reason }) => {
            assert!(reason.contains(says), "{reason}");
            assert!(place.contains(&path.as_ref().display().to_string()), "{place}");
        }
        other => panic!("{other:?}"),
    }
}

/// A file with a hundred checkpoints of thread `t`, and some of thread `other`.
async fn full(path: &Path, options: hier_sqlite::SqliteOptions) {
    let saver = options.open(path).await.expect("a new file");
    for (thread, count) in [("t", 100), ("other", 5)] {
        let lease = saver.acquire(thread, Claim::default()).await.expect("the thread");
        let mut last = None;
        for number in 0..count {
            let changes = [(0, number > 0, vec![number; 50]), (1, false, format!("value {number}").into_bytes())];
            let (checkpoint, record) = kit::next(last.as_ref(), &changes, 2);
            let write = kit::write(checkpoint.id, 0, b"by a task");
            saver.commit(&lease, vec![record, write].into()).await.expect("a commit");
            last = Some(checkpoint);
        }
        saver.release(&lease).await.expect("a release");
    }
    saver.close().await.expect("a close");
}

/// Stores a write of thread `t`, in a file that is already open.
async fn store(saver: &Sqlite, lease: &hier_core::checkpoint::Lease) -> Result<(), SaverError> {
    let (checkpoint, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    let write = kit::write(checkpoint.id, 0, b"by a task");
    saver.commit(lease, vec![record, write].into()).await.map(drop)
}

#[cfg(unix)]
#[tokio::test]
async fn commits_to_a_file_that_was_moved_or_replaced_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("a.db"), folder.path().join("b.db"));
    let saver = Sqlite::open(&path).await.expect("a new file");
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let is_refused = |stored: Result<(), SaverError>| match stored {
        Err(SaverError::Unusable { place, reason }) => {
            assert!(place.contains("a.db") && reason.contains("deleted, moved or replaced"), "{place}: {reason}");
        }
        other => panic!("{other:?}"),
    };
    std::fs::rename(&path, &moved).expect("a move");
    is_refused(store(&saver, &lease).await);
    std::fs::write(&path, "another file").expect("a file");
    is_refused(store(&saver, &lease).await);
    std::fs::rename(&moved, &path).expect("a move");
    store(&saver, &lease).await.expect("a commit, since the file is there again");
}

/// Does all that a program does with a file. What it returns is not looked at: it must return.
async fn use_all(path: &Path, options: hier_sqlite::SqliteOptions) -> Result<(), SaverError> {
    let saver = options.open(path).await?;
    let results = [
        saver.get("t", "", None).await.map(|_| ()),
        saver.list(ListQuery::default()).await.map(|_| ()),
        saver.threads(None).await.map(|_| ()),
        saver.copy_thread("t", "copy").await,
        saver.prune(Prune::default()).await.map(|_| ()),
        saver.check().await,
    ];
    results.into_iter().collect()
}

#[tokio::test]
async fn non_database_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    unusable(folder.path(), "it is a folder").await;
    unusable(folder.path().join("missing").join("desk.db"), "check that its folder exists").await;
    let text = folder.path().join("letter.txt");
    std::fs::write(&text, "Dear Sir or Madam, ".repeat(100)).expect("a file");
    unusable(&text, "it is not a SQLite database").await;
    assert_eq!(std::fs::read(&text).expect("the file"), "Dear Sir or Madam, ".repeat(100).into_bytes());
}

#[tokio::test]
async fn foreign_databases_are_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("theirs.db");
    Connection::open(&path).and_then(|db| db.execute_batch("create table checkpoints (x)")).expect("a database");
    let before = std::fs::read(&path).expect("the file");
    unusable(&path, "it belongs to another program").await;
    assert_eq!(std::fs::read(&path).expect("the file"), before);
}

#[tokio::test]
async fn newer_or_incomplete_databases_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    full(&path, Sqlite::options()).await;
    let db = Connection::open(&path).expect("the file");
    db.execute_batch("pragma user_version = 99").expect("a version");
    unusable(&path, "newer version").await;
    db.execute_batch("pragma user_version = 1; drop table writes").expect("a loss");
    unusable(&path, "some of its tables are missing").await;
}

#[tokio::test]
async fn files_truncated_anywhere_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    full(&path, Sqlite::options()).await;
    let whole = std::fs::read(&path).expect("the file");
    for part in 1..97 {
        let cut = folder.path().join(format!("{part}.db"));
        std::fs::write(&cut, &whole[..whole.len() * part / 97]).expect("a file");
        let error = use_all(&cut, Sqlite::options()).await.expect_err("half a file");
        assert!(matches!(error, SaverError::Unusable { .. } | SaverError::Damaged { .. }), "{error:?}");
    }
}

/// Uses a copy of the file in which 64 bytes are flipped.
async fn use_flipped(whole: &[u8], place: usize) -> Result<(), SaverError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flipped.db");
    let mut bytes = whole.to_vec();
    let end = bytes.len().min(place + 64);
    for byte in &mut bytes[place..end] {
        *byte = !*byte;
    }
    std::fs::write(&path, bytes).expect("a file");
    let result = use_all(&path, Sqlite::options()).await;
    if let Err(error) = &result {
        assert!(matches!(error, SaverError::Unusable { .. } | SaverError::Damaged { .. }), "at {place}: {error:?}");
    }
    result
}

#[tokio::test]
async fn files_with_flipped_bytes_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    full(&path, Sqlite::options()).await;
    let whole = std::fs::read(&path).expect("the file");
    // SQLite has no checksums: a flipped bit in a value may go unnoticed, and must do no harm.
    for number in 0..150 {
        let _ = use_flipped(&whole, number * 7_919 * 31 % whole.len()).await;
    }
    let page = usize::from(u16::from_be_bytes([whole[16], whole[17]]));
    for start in (0..whole.len()).step_by(page) {
        assert!(use_flipped(&whole, start).await.is_err(), "the head of the page at {start} is flipped");
    }
}

#[cfg(feature = "encryption")]
mod encrypted {
    use hier_core::checkpoint::{Checkpointer, ListQuery, SaverError};
    use hier_sqlite::Key;
    use hier_sqlite::{Sqlite, SqliteOptions};
    use rusqlite::Connection;

    use super::full;

    fn options() -> SqliteOptions {
        Sqlite::options().encrypt(&Key::new([9; 32]))
    }

    fn is_damage<T: std::fmt::Debug>(result: Result<T, SaverError>, says: &str) {
        match result {
            Err(SaverError::Damaged { reason, .. }) => assert!(reason.contains(says), "{reason}"),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn encrypted_file_contains_no_plain_contents() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("desk.db");
        full(&path, options()).await;
        let bytes = std::fs::read(&path).expect("the file");
        for secret in ["in the metadata", "value 7", "by a task"] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "`{secret}`");
        }
        let saver = options().open(&path).await.expect("the file");
        assert!(saver.get("t", "", None).await.expect("a checkpoint").is_some());
    }

    #[tokio::test]
    async fn missing_or_wrong_key_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("desk.db");
        full(&path, options()).await;
        let saver = Sqlite::open(&path).await.expect("the file");
        is_damage(saver.get("t", "", None).await, "is encrypted: open the store with its key");
        let saver = Sqlite::options().encrypt(&Key::new([8; 32])).open(&path).await.expect("the file");
        is_damage(saver.get("t", "", None).await, "encrypted with another key");
        is_damage(saver.list(ListQuery::thread("t")).await, "encrypted with another key");
    }

    #[tokio::test]
    async fn plain_rows_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("desk.db");
        full(&path, Sqlite::options()).await;
        let saver = options().open(&path).await.expect("the file");
        is_damage(saver.get("t", "", None).await, "is not encrypted, but the store has a key");
    }

    /// Each of these moves encrypted data to another place, or changes its description.
    #[tokio::test]
    async fn moved_rows_are_refused() {
        let last = "(select max(id) from checkpoints where space = 1)";
        let before = "(select max(id) from checkpoints where space = 1 and id < (select max(id) from checkpoints where space = 1))";
        let moves = [
            // The body of another checkpoint, or of another thread.
            format!("update blobs set value = (select body from checkpoints where space = 1 and id = {before}) where space = 1 and channel = 0 and version = {last}"),
            format!("update blobs set value = (select body from checkpoints where space = 2 limit 1) where space = 1 and channel = 0 and version = {last}"),
            // The value of another channel, version or thread.
            format!("update blobs set value = (select value from blobs where space = 1 and channel = 'channel 0' and version = {last}) where space = 1 and channel = 'channel 1' and version = {last}"),
            format!("update blobs set value = (select value from blobs where space = 1 and channel = 'channel 1' and version = {before}) where space = 1 and channel = 'channel 1' and version = {last}"),
            format!("update blobs set value = (select value from blobs where space = 2 and channel = 'channel 1' limit 1) where space = 1 and channel = 'channel 1' and version = {last}"),
            // A chain that skips a part, or starts too late.
            format!("update blobs set base = (select min(version) from blobs where space = 1) where space = 1 and channel = 'channel 0' and version = {last}"),
            format!("update blobs set base = null where space = 1 and channel = 'channel 0' and version = {last}"),
            // A write of another checkpoint, task, slot or channel.
            format!("update writes set value = (select value from writes where space = 1 and checkpoint = {before}) where space = 1 and checkpoint = {last}"),
            format!("update writes set task = zeroblob(16) where space = 1 and checkpoint = {last}"),
            format!("update writes set slot = 3 where space = 1 and checkpoint = {last}"),
            format!("update writes set channel = 'channel 1' where space = 1 and checkpoint = {last}"),
            format!("update writes set path = 'b' where space = 1 and checkpoint = {last}"),
            // The whole thread under another name.
            "update threads set name = 'x' where name = 'other'; update threads set name = 'other' where name = 't'; update threads set name = 't' where name = 'x'".to_owned(),
        ];
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("desk.db");
        full(&path, options()).await;
        for (number, sql) in moves.iter().enumerate() {
            let changed = folder.path().join(format!("{number}.db"));
            std::fs::copy(&path, &changed).expect("a copy");
            Connection::open(&changed).and_then(|db| db.execute_batch(sql)).expect(sql);
            let saver = options().open(&changed).await.expect("the file");
            match saver.get("t", "", None).await {
                Err(SaverError::Damaged { reason, .. }) => {
                    assert!(reason.contains("moved from another place"), "{reason}");
                }
                other => panic!("{sql}: {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn renamed_namespace_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("desk.db");
        full(&path, options()).await;
        let db = Connection::open(&path).expect("the file");
        db.execute_batch("update spaces set name = 'child' where key = 1").expect("another name");
        let saver = options().open(&path).await.expect("the file");
        is_damage(saver.get("t", "child", None).await, "moved from another place");
    }

    #[test]
    fn keys_are_parsed_and_never_printed() {
        let key = Key::from_hex(&"0aF".repeat(64)[..64]).expect("a key");
        assert_eq!(format!("{key:?}"), "Key(…)");
        assert!(format!("{:?}", Sqlite::options().encrypt(&key)).contains("vault: ValueCodec"));
        for wrong in ["", "00", &"0".repeat(63), &"g".repeat(64), &"ü".repeat(32)] {
            assert!(matches!(Key::from_hex(wrong), Err(SaverError::Invalid(_))), "{wrong}");
        }
    }
}

mod random_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Replaced data leads to an error, not a panic.
        #[test]
        fn replaced_bodies_values_and_writes_are_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            form in prop::option::of(0..4_u8),
            sealed: bool,
        ) {
            let mut bytes = bytes;
            // Most random bytes are of no known form: these say that they are.
            bytes.extend(form);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let folder = tempfile::tempdir().expect("a folder");
                let path = folder.path().join("desk.db");
                let options = || {
                    let options = Sqlite::options();
                    #[cfg(feature = "encryption")]
                    let options = if sealed { options.encrypt(&hier_sqlite::Key::new([1; 32])) } else { options };
                    options
                };
                let saver = options().open(&path).await.expect("a new file");
                let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
                let (checkpoint, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
                saver.commit(&lease, vec![record, kit::write(checkpoint.id, 0, b"by a task")].into()).await.expect("a commit");
                saver.close().await.expect("a close");
                let db = Connection::open(&path).expect("the file");
                db.execute("update blobs set value = ?1 where channel <> 0", [&bytes]).expect("a value");
                db.execute("update writes set value = ?1", [&bytes]).expect("a write");
                let saver = options().open(&path).await.expect("the file");
                let read = saver.get("t", "", None).await;
                let plain = bytes.last() == Some(&0) && !(sealed && cfg!(feature = "encryption"));
                let packed = bytes.last() == Some(&1) && !(sealed && cfg!(feature = "encryption"));
                if plain {
                    prop_assert!(read.is_ok(), "{read:?}");
                } else if !packed {
                    prop_assert!(matches!(read, Err(SaverError::Damaged { .. })), "{read:?}");
                }
                db.execute("update blobs set value = ?1 where channel = 0", [&bytes]).expect("a body");
                for result in [
                    saver.get("t", "", None).await.map(|_| ()),
                    saver.list(ListQuery::default()).await.map(|_| ()),
                    saver.prune(Prune::default()).await.map(|_| ()),
                ] {
                    prop_assert!(matches!(result, Err(SaverError::Damaged { .. })), "{result:?}");
                }
                Ok(())
            })?;
        }
    }
}
