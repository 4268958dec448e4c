//! The guard of the tokens: one task of one process changes them at a time.
//!
//! A store has no locks and no conditional writes. A process puts its mark, waits until the writes of others are visible,
//! and may change the tokens if the mark is still its own. It renews the mark until it is done. A mark that stays the
//! same belongs to a process that died.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::AuthError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::changes::TokenChanges;
use super::items::{SealedItems, failed};

/// The item of the process that changes the tokens. It is not encrypted, so that a process with another key can delete
/// the tokens.
const MARK: &str = "changing";
/// The time in which a write of another process becomes visible, and the interval at which a process waits.
const SETTLING: Duration = Duration::from_millis(100);
/// The interval at which a process renews its mark.
const RENEWAL: Duration = Duration::from_secs(5);
/// The time after which a mark that was not renewed no longer stops others.
const LAPSE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct ChangeMark {
    owner: Uuid,
    renewal: u64,
}

/// The right to change the tokens. Dropping it releases the mark.
pub(super) struct TokenGuard {
    changes: Arc<TokenChanges>,
    /// Dropping it releases the mark.
    release: Option<oneshot::Sender<Infallible>>,
    _lock: OwnedMutexGuard<()>,
}

impl Drop for TokenGuard {
    fn drop(&mut self) {
        self.changes.set_owner(None);
    }
}

impl SealedItems {
    /// Waits until no other task or process changes the tokens. Cancel safety: dropping the future releases the mark.
    pub(super) async fn guard(&self) -> Result<TokenGuard, AuthError> {
        let lock = self.changes.lock.clone().lock_owned().await;
        let mut guard = TokenGuard { changes: self.changes.clone(), release: None, _lock: lock };
        let mut seen: Option<(ChangeMark, Instant)> = None;
        loop {
            let found = self.mark().await?;
            let has_lapsed = match (found, seen) {
                (None, _) => true,
                (Some(mark), Some((known, since))) if mark == known => since.elapsed() >= LAPSE,
                (Some(mark), _) => {
                    seen = Some((mark, Instant::now()));
                    false
                }
            };
            if has_lapsed {
                self.put_mark(&mut guard).await?;
                sleep(SETTLING).await;
                if self.owns_mark().await? {
                    return Ok(guard);
                }
                // Another process was faster.
                (guard.release, seen) = (None, None);
            }
            sleep(SETTLING).await;
        }
    }

    async fn put_mark(&self, guard: &mut TokenGuard) -> Result<(), AuthError> {
        let (owner, (release, released)) = (Uuid::new_v4(), oneshot::channel());
        self.write_mark(Some(ChangeMark { owner, renewal: 0 })).await?;
        self.changes.set_owner(Some(owner));
        guard.release = Some(release);
        tokio::spawn(self.clone().keep_mark(owner, released));
        Ok(())
    }

    /// Renews a mark until its guard is dropped, then deletes it.
    async fn keep_mark(self, owner: Uuid, mut released: oneshot::Receiver<Infallible>) {
        for renewal in 1.. {
            let is_held = timeout(RENEWAL, &mut released).await.is_err();
            let kept = async {
                let is_own = self.mark().await?.is_some_and(|mark| mark.owner == owner);
                if is_own {
                    self.write_mark(is_held.then_some(ChangeMark { owner, renewal })).await?;
                }
                Ok::<_, AuthError>(is_own)
            };
            let is_own = kept.await.unwrap_or_else(|error| {
                tracing::debug!(server = self.url, %error, "failed to renew or release the mark of a change of tokens");
                true
            });
            if !is_held || !is_own {
                return;
            }
        }
    }

    /// Returns true if this process may change the tokens. Another one takes over after a long pause of this one.
    pub(super) async fn owns_mark(&self) -> Result<bool, AuthError> {
        let owner = self.changes.owner();
        Ok(self.mark().await?.is_some_and(|mark| Some(mark.owner) == owner))
    }

    async fn mark(&self) -> Result<Option<ChangeMark>, AuthError> {
        let Some(item) = self.read(MARK, Some(false)).await? else { return Ok(None) };
        serde_json::from_value(Value::Object(item.value)).map(Some).map_err(|error| failed(&error))
    }

    async fn write_mark(&self, mark: Option<ChangeMark>) -> Result<(), AuthError> {
        let value = match mark.map(serde_json::to_value).transpose().map_err(|error| failed(&error))? {
            Some(Value::Object(value)) => Some(value),
            _ => None,
        };
        self.batch(vec![self.write(MARK, value, Some(LAPSE))]).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hier_core::store::{MemoryStore, Op, OpResult, Store, StoreError};
    use rmcp::transport::auth::{CredentialStore, StoredCredentials};

    use super::*;
    use crate::seal::SealKey;

    /// A store whose next operations fail.
    #[derive(Default)]
    struct Failing {
        store: MemoryStore,
        failures: AtomicUsize,
    }

    #[hier_core::async_trait]
    impl Store for Failing {
        async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError> {
            let left = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            match left {
                Ok(_) => Err(StoreError::Invalid("the disk is gone".to_owned())),
                Err(_) => self.store.batch(ops).await,
            }
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
        StoredCredentials::new("desk".to_owned(), None, Vec::new(), Some(1))
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
    async fn process_that_lost_its_mark_stores_no_tokens() {
        let (_, [first, second]) = two();
        let _lost = first.guard().await.unwrap();
        // It did not renew the mark for a long time.
        second.write_mark(None).await.unwrap();
        let guard = second.guard().await.unwrap();
        sleep(2 * RENEWAL).await;
        let refused = CredentialStore::save(&first, tokens()).await.unwrap_err().to_string();
        assert!(refused.contains("another process changed the tokens meanwhile"), "{refused}");
        CredentialStore::save(&second, tokens()).await.unwrap();
        drop(guard);
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
