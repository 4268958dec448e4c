//! Changes of the stored tokens.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::transport::auth::AuthError;
use serde_json::{Map, Value};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep};

use super::mark::{ChangeMark, HeldMark, LAPSE, SETTLING};
use super::{FreeItem, ItemStore, StoredItem, failed};

/// The encrypted items on which a change builds.
struct ChangeBase {
    client: Option<Map<String, Value>>,
    tokens: Option<Map<String, Value>>,
}

impl ChangeBase {
    async fn read(items: &ItemStore) -> Result<Self, AuthError> {
        let read = [FreeItem::Client.into(), StoredItem::Tokens].map(|item| items.read_op(item, None));
        let read = <[_; 2]>::try_from(items.batch(read.to_vec()).await?);
        let [client, tokens] =
            read.map_err(|_| failed(&"the store returned too few results: fix its implementation of `batch`"))?;
        Ok(Self { client: client.map(|item| item.value), tokens: tokens.map(|item| item.value) })
    }

    /// Returns true if the tokens of a change that began with this base may replace the stored tokens. A process
    /// deletes only the tokens if its refresh was rejected, and also the client if it forgets the authorization.
    fn allows_change_of(&self, stored: &Self) -> bool {
        self.client == stored.client && (stored.tokens.is_none() || self.tokens == stored.tokens)
    }
}

/// A change of the tokens. The lock excludes other tasks of this process. Other processes wait while they see the mark.
pub(in super::super) struct TokenChange {
    items: ItemStore,
    mark: HeldMark,
    base: Mutex<ChangeBase>,
    _lock: OwnedMutexGuard<()>,
}

impl TokenChange {
    /// Waits until no other process changes the tokens. The lock excludes other tasks of this process. Dropping the
    /// change releases its mark.
    ///
    /// Cancel safety: dropping the future releases the mark.
    pub(in super::super) async fn begin(items: &ItemStore, lock: OwnedMutexGuard<()>) -> Result<Self, AuthError> {
        let mut seen: Option<(ChangeMark, Instant)> = None;
        loop {
            let found = items.mark().await?;
            let has_lapsed = match (found, seen) {
                (None, _) => true,
                (Some(mark), Some((known, since))) if mark == known => since.elapsed() >= LAPSE,
                (Some(mark), _) => {
                    seen = Some((mark, Instant::now()));
                    false
                }
            };
            if has_lapsed {
                let mark = items.put_mark().await?;
                sleep(SETTLING).await;
                if items.has_mark_of(mark.owner).await? {
                    let base = Mutex::new(ChangeBase::read(items).await?);
                    return Ok(Self { items: items.clone(), mark, base, _lock: lock });
                }
                // Another process has replaced the mark.
                seen = None;
            }
            sleep(SETTLING).await;
        }
    }
}

impl TokenChange {
    /// Records that this process has stored the client.
    pub(in super::super) fn note_client(&self, client: Map<String, Value>) {
        self.base().client = Some(client);
    }

    fn base(&self) -> MutexGuard<'_, ChangeBase> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores encrypted tokens, or deletes the tokens if there are none. Returns false if another process has changed
    /// them meanwhile.
    pub(in super::super) async fn write(&self, tokens: Option<&Map<String, Value>>) -> Result<bool, AuthError> {
        if !self.items.regain_mark(&self.mark).await? {
            return Err(failed(&"another process is changing the tokens: try again"));
        }
        let stored = ChangeBase::read(&self.items).await?;
        // Equal tokens mean that an earlier attempt succeeded and its result was lost.
        if stored.tokens.as_ref() != tokens {
            if !self.base().allows_change_of(&stored) {
                return Ok(false);
            }
            self.items.batch(vec![self.items.write_op(StoredItem::Tokens, tokens.cloned(), None)]).await?;
        }
        self.base().tokens = tokens.cloned();
        Ok(true)
    }

    /// Deletes the tokens, the client and the scopes that the tokens lack.
    pub(in super::super) async fn forget(&self) -> Result<(), AuthError> {
        let items = [StoredItem::Tokens, FreeItem::Client.into(), FreeItem::Required.into()];
        let deletes = items.map(|item| self.items.write_op(item, None, None));
        self.items.batch(deletes.to_vec()).await.map(|_| ())
    }
}
