//! The guard of the tokens: one task of one process changes them at a time.
//!
//! A store has no locks and no conditional writes. A process puts its mark, waits until the writes of others are visible,
//! and may change the tokens if the mark is still its own. It renews the mark until it is done. A mark that stays the
//! same belongs to a process that died. If the store fails for so long that the mark of a living process lapses, the
//! process puts it again, unless another process has one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::AuthError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::items::SealedItems;
use super::store::{FreeItem, ItemStore, TokenChange, failed};

/// The time in which a write of another process becomes visible, and the interval at which a process waits.
const SETTLING: Duration = Duration::from_millis(100);
/// The interval at which a process renews its mark.
const RENEWAL: Duration = Duration::from_secs(5);
/// The interval while the store fails.
const RETRY: Duration = Duration::from_secs(1);
/// The time after which a mark that was not renewed no longer stops others.
const LAPSE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct ChangeMark {
    owner: Uuid,
    renewal: u64,
}

/// A mark in the store. Dropping it deletes the mark.
pub(super) struct HeldMark {
    owner: Uuid,
    _release: oneshot::Sender<Infallible>,
}

impl SealedItems {
    /// Waits until no other task or process changes the tokens. Dropping the returned change releases its mark.
    ///
    /// Cancel safety: dropping the future releases the mark.
    pub(super) async fn guard(&self) -> Result<Arc<TokenChange>, AuthError> {
        let lock = self.changes.lock.clone().lock_owned().await;
        let mut seen: Option<(ChangeMark, Instant)> = None;
        loop {
            let found = self.store.mark().await?;
            let has_lapsed = match (found, seen) {
                (None, _) => true,
                (Some(mark), Some((known, since))) if mark == known => since.elapsed() >= LAPSE,
                (Some(mark), _) => {
                    seen = Some((mark, Instant::now()));
                    false
                }
            };
            if has_lapsed {
                let mark = self.store.put_mark().await?;
                sleep(SETTLING).await;
                if self.store.has_mark_of(mark.owner).await? {
                    let change = TokenChange::begin(self.store.clone(), mark, lock).await?;
                    return Ok(self.changes.begin(change));
                }
                // Another process was faster.
                seen = None;
            }
            sleep(SETTLING).await;
        }
    }
}

impl ItemStore {
    async fn put_mark(&self) -> Result<HeldMark, AuthError> {
        let (owner, (release, released)) = (Uuid::new_v4(), oneshot::channel());
        let (put, is_put) = oneshot::channel();
        // The task puts the mark too: it releases the mark of a caller that is dropped meanwhile.
        tokio::spawn(self.clone().keep_mark(owner, put, released));
        let stopped = |_| failed(&"the runtime stopped before the mark of a change of tokens was stored");
        is_put.await.map_err(stopped)??;
        Ok(HeldMark { owner, _release: release })
    }

    /// Puts a mark, renews it until it is released, then deletes it.
    async fn keep_mark(
        self,
        owner: Uuid,
        put: oneshot::Sender<Result<(), AuthError>>,
        mut released: oneshot::Receiver<Infallible>,
    ) {
        let _ = put.send(self.write_mark(Some(ChangeMark { owner, renewal: 0 })).await);
        let mut interval = RENEWAL;
        for renewal in 1.. {
            let is_held = timeout(interval, &mut released).await.is_err();
            let kept = async {
                let may_write = match self.mark().await? {
                    Some(mark) => mark.owner == owner,
                    None => is_held,
                };
                if may_write {
                    self.write_mark(is_held.then_some(ChangeMark { owner, renewal })).await?;
                }
                Ok::<_, AuthError>(())
            };
            interval = match kept.await {
                Ok(()) => RENEWAL,
                Err(error) => {
                    tracing::debug!(server = self.url, %error, "failed to renew or release the mark of a change of tokens");
                    RETRY
                }
            };
            if !is_held {
                return;
            }
        }
    }

    /// Returns true if the process of this mark may change the tokens. Puts the mark again if it has lapsed.
    pub(super) async fn regain_mark(&self, held: &HeldMark) -> Result<bool, AuthError> {
        if self.mark().await?.is_none() {
            self.write_mark(Some(ChangeMark { owner: held.owner, renewal: 0 })).await?;
            sleep(SETTLING).await;
        }
        self.has_mark_of(held.owner).await
    }

    async fn has_mark_of(&self, owner: Uuid) -> Result<bool, AuthError> {
        Ok(self.mark().await?.is_some_and(|mark| mark.owner == owner))
    }

    async fn mark(&self) -> Result<Option<ChangeMark>, AuthError> {
        let Some(item) = self.read(FreeItem::Mark.into(), Some(false)).await? else { return Ok(None) };
        serde_json::from_value(Value::Object(item.value)).map(Some).map_err(|error| failed(&error))
    }

    async fn write_mark(&self, mark: Option<ChangeMark>) -> Result<(), AuthError> {
        let value = match mark.map(serde_json::to_value).transpose().map_err(|error| failed(&error))? {
            Some(Value::Object(value)) => Some(value),
            _ => None,
        };
        self.write(FreeItem::Mark, value, Some(LAPSE)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hier_core::store::{MemoryStore, Op, OpResult, Store, StoreError};
    use rmcp::transport::auth::{CredentialStore, StoredCredentials};

    use super::super::items::RegisteredClient;
    use super::*;
    use crate::seal::SealKey;

    /// A store whose next operations fail, and whose writes return when their gate is open.
    #[derive(Default)]
    struct Failing {
        store: MemoryStore,
        failures: AtomicUsize,
        gate: tokio::sync::Mutex<()>,
    }

    #[hier_core::async_trait]
    impl Store for Failing {
        async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError> {
            let left = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if left.is_ok() {
                return Err(StoreError::Invalid("the disk is gone".to_owned()));
            }
            let is_write = matches!(ops[0], Op::Put { .. });
            let results = self.store.batch(ops).await;
            if is_write {
                drop(self.gate.lock().await);
            }
            results
        }

        async fn sweep(&self) -> Result<u64, StoreError> {
            self.store.sweep().await
        }
    }

    /// Returns two processes with one store.
    fn two() -> (Arc<Failing>, [SealedItems; 2]) {
        let store = Arc::new(Failing::default());
        let items = || SealedItems::new((store.clone(), SealKey::new([7; 32])), "ada".to_owned(), "a:b".to_owned());
        let items = [items(), items()];
        (store, items)
    }

    fn tokens() -> StoredCredentials {
        tokens_of("desk")
    }

    fn tokens_of(client: &str) -> StoredCredentials {
        StoredCredentials::new(client.to_owned(), None, Vec::new(), Some(1))
    }

    fn client() -> RegisteredClient {
        RegisteredClient { id: "desk".to_owned(), secret: None, redirect: "a:c".to_owned(), issuer: None }
    }

    async fn stored(items: &SealedItems) -> Option<String> {
        CredentialStore::load(items).await.unwrap().map(|stored| stored.client_id)
    }

    /// Lets a refresh of the first process get new tokens, and the store fail until its mark has lapsed. Meanwhile
    /// the second process makes a change.
    async fn outage(meanwhile: impl AsyncFnOnce(&SealedItems)) -> (Result<(), AuthError>, [SealedItems; 2]) {
        let (store, [first, second]) = two();
        let guard = first.guard().await.unwrap();
        first.put_client(&client()).await.unwrap();
        CredentialStore::save(&first, tokens()).await.unwrap();
        drop(guard);
        let guard = first.guard().await.unwrap();
        store.failures.store(usize::MAX, Ordering::Relaxed);
        let saved = CredentialStore::save(&first, tokens_of("new")).await;
        // The process of the new tokens uses them.
        assert_eq!(stored(&first).await.as_deref(), Some("new"));
        // The caller stops waiting, and its guard ends with it.
        drop(guard);
        sleep(LAPSE).await;
        store.failures.store(0, Ordering::Relaxed);
        second.store.write_mark(None).await.unwrap();
        meanwhile(&second).await;
        // The first process waits for its own change.
        drop(first.guard().await.unwrap());
        (saved, [first, second])
    }

    #[tokio::test(start_paused = true)]
    async fn mark_is_renewed_while_its_owner_works() {
        let (_, [first, second]) = two();
        let guard = first.guard().await.unwrap();
        for waiting in [&second, &first] {
            assert!(timeout(10 * LAPSE, waiting.guard()).await.is_err());
        }
        CredentialStore::save(&first, tokens()).await.unwrap();
        drop(guard);
        drop(second.guard().await.unwrap());
        first.guard().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn mark_of_a_dead_process_lapses() {
        let (_, [first, second]) = two();
        // The runtime ends with all tasks, as a process does.
        let dying = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            std::mem::forget(runtime.block_on(first.guard()).unwrap());
        });
        dying.join().unwrap();
        let begun = Instant::now();
        second.guard().await.unwrap();
        assert!((LAPSE..2 * LAPSE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn mark_of_a_dropped_guard_is_deleted_though_its_write_did_not_return() {
        let (store, [first, second]) = two();
        let gate = store.gate.lock().await;
        assert!(timeout(SETTLING, first.guard()).await.is_err());
        drop(gate);
        let begun = Instant::now();
        drop(second.guard().await.unwrap());
        assert!(begun.elapsed() < RENEWAL, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn lapsed_mark_is_put_again_unless_another_process_has_one() {
        let (_, [first, second]) = two();
        let guard = first.guard().await.unwrap();
        second.store.write_mark(None).await.unwrap();
        sleep(RENEWAL).await;
        assert!(timeout(10 * LAPSE, second.guard()).await.is_err());
        second.store.write_mark(None).await.unwrap();
        let other = second.guard().await.unwrap();
        assert!(timeout(10 * LAPSE, CredentialStore::save(&first, tokens())).await.unwrap().is_err());
        assert_eq!(stored(&second).await, None);
        drop((guard, other));
        // The first process waits for its own change.
        drop(first.guard().await.unwrap());
        assert_eq!(stored(&second).await.as_deref(), Some("desk"));
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_deleted_only_by_the_change_that_knows_them() {
        let (_, [first, second]) = two();
        let guard = first.guard().await.unwrap();
        CredentialStore::save(&first, tokens()).await.unwrap();
        // The mark has lapsed, and another process begins a change.
        second.store.write_mark(None).await.unwrap();
        let other = second.guard().await.unwrap();
        assert!(first.clear().await.unwrap_err().to_string().contains("another process is changing the tokens"));
        CredentialStore::save(&second, tokens_of("new")).await.unwrap();
        drop(other);
        sleep(RENEWAL).await;
        first.clear().await.unwrap();
        assert_eq!(stored(&second).await.as_deref(), Some("new"));
        drop(guard);
        assert!(second.clear().await.unwrap_err().to_string().contains("only under their guard"));
        let _guard = second.guard().await.unwrap();
        second.clear().await.unwrap();
        assert_eq!(stored(&first).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn new_tokens_are_stored_after_an_outage_in_which_the_mark_lapsed() {
        let (saved, [_, second]) = outage(async |_| ()).await;
        assert!(saved.unwrap_err().to_string().contains("the disk is gone"));
        assert_eq!(stored(&second).await.as_deref(), Some("new"));
        // The authorization server refused the previous tokens of the second process.
        let refused = async |second: &SealedItems| {
            let _guard = second.guard().await.unwrap();
            second.on_refresh_token_rejected(&tokens()).await.unwrap();
        };
        let (_, [_, second]) = outage(refused).await;
        assert_eq!(stored(&second).await.as_deref(), Some("new"));
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_another_process_during_an_outage_stay() {
        let finished = async |second: &SealedItems| {
            let _guard = second.guard().await.unwrap();
            CredentialStore::save(second, tokens_of("finished")).await.unwrap();
        };
        let (_, items) = outage(finished).await;
        for items in &items {
            assert_eq!(stored(items).await.as_deref(), Some("finished"));
        }
        let (_, items) = outage(async |second: &SealedItems| second.forget().await.unwrap()).await;
        for items in &items {
            assert_eq!(stored(items).await, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_stored_again_until_the_store_answers() {
        let (store, [first, second]) = two();
        let guard = first.guard().await.unwrap();
        store.failures.store(6, Ordering::Relaxed);
        CredentialStore::save(&first, tokens()).await.unwrap();
        assert_eq!(CredentialStore::load(&second).await.unwrap().unwrap().client_id, "desk");
        store.failures.store(usize::MAX, Ordering::Relaxed);
        let begun = Instant::now();
        let failed = CredentialStore::save(&first, tokens()).await.unwrap_err().to_string();
        assert!(failed.contains("the disk is gone") && begun.elapsed() < LAPSE, "{failed}");
        assert!(second.guard().await.is_err());
        drop(guard);
    }
}
