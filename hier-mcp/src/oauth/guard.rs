//! The guard of the tokens. Only one task of one process at a time changes the tokens.

use std::sync::Arc;

use rmcp::transport::auth::AuthError;

use super::items::SealedItems;
use super::store::TokenChange;

impl SealedItems {
    /// Waits until no other task or process changes the tokens. Dropping the returned change releases its mark.
    ///
    /// Cancel safety: dropping the future releases the mark.
    pub(super) async fn guard(&self) -> Result<Arc<TokenChange>, AuthError> {
        let lock = self.changes.lock.clone().lock_owned().await;
        Ok(self.changes.begin(TokenChange::begin(&self.store, lock).await?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hier_core::store::{MemoryStore, Op, OpResult, Store, StoreError};
    use rmcp::transport::auth::{CredentialStore, StoredCredentials};
    use tokio::time::{Instant, sleep, timeout};

    use super::super::items::RegisteredClient;
    use super::super::store::{LAPSE, RENEWAL, SETTLING};
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

    /// Returns the credentials of two processes with one store.
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

    /// Simulates an outage: the first process gets new tokens, and then the store fails until the mark of the process
    /// has lapsed. After that, the second process makes a change.
    async fn outage(meanwhile: impl AsyncFnOnce(&SealedItems)) -> (Result<(), AuthError>, [SealedItems; 2]) {
        let (store, [first, second]) = two();
        let guard = first.guard().await.unwrap();
        first.put_client(&client()).await.unwrap();
        CredentialStore::save(&first, tokens()).await.unwrap();
        drop(guard);
        let guard = first.guard().await.unwrap();
        store.failures.store(usize::MAX, Ordering::Relaxed);
        let saved = CredentialStore::save(&first, tokens_of("new")).await;
        // The process that got the new tokens uses them.
        assert_eq!(stored(&first).await.as_deref(), Some("new"));
        // Dropping the guard simulates a caller that stops waiting.
        drop(guard);
        sleep(LAPSE).await;
        store.failures.store(0, Ordering::Relaxed);
        second.store.delete_mark().await.unwrap();
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
        // The runtime ends with all its tasks, as in a process that dies.
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
        second.store.delete_mark().await.unwrap();
        sleep(RENEWAL).await;
        assert!(timeout(10 * LAPSE, second.guard()).await.is_err());
        second.store.delete_mark().await.unwrap();
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
        second.store.delete_mark().await.unwrap();
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
    async fn failed_deletion_keeps_tokens_that_are_not_stored_yet() {
        let (store, [items, _]) = two();
        let _guard = items.guard().await.unwrap();
        store.failures.store(usize::MAX, Ordering::Relaxed);
        CredentialStore::save(&items, tokens()).await.unwrap_err();
        items.clear().await.unwrap_err();
        assert_eq!(stored(&items).await.as_deref(), Some("desk"));
    }

    #[tokio::test(start_paused = true)]
    async fn new_tokens_are_stored_after_an_outage_in_which_the_mark_lapsed() {
        let (saved, [_, second]) = outage(async |_| ()).await;
        assert!(saved.unwrap_err().to_string().contains("the disk is gone"));
        assert_eq!(stored(&second).await.as_deref(), Some("new"));
        // The authorization server rejected the previous tokens of the second process.
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
