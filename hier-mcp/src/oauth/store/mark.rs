//! The marks of processes that change the tokens.
//!
//! A store has no locks and no conditional writes. Therefore a process puts its mark, waits until the writes of other
//! processes are visible, and may change the tokens if the mark is still its own. The process renews the mark until the
//! change ends. A mark that does not change for some time belongs to a process that died. If the store fails for so
//! long that the mark of a living process lapses, the process puts its mark again, unless another process has put one.

use std::convert::Infallible;
use std::time::Duration;

use rmcp::transport::auth::AuthError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{FreeItem, ItemStore, failed};

/// The time in which a write of another process becomes visible, and the interval at which a process waits.
pub(in super::super) const SETTLING: Duration = Duration::from_millis(100);
/// The interval at which a process renews its mark.
pub(in super::super) const RENEWAL: Duration = Duration::from_secs(5);
/// The interval of renewals while the store fails.
const RETRY: Duration = Duration::from_secs(1);
/// The time after which other processes ignore a mark that was not renewed.
pub(in super::super) const LAPSE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct ChangeMark {
    owner: Uuid,
    renewal: u64,
}

/// A mark in the store. Dropping it deletes the mark.
pub(super) struct HeldMark {
    pub(super) owner: Uuid,
    _release: oneshot::Sender<Infallible>,
}

impl ItemStore {
    pub(super) async fn put_mark(&self) -> Result<HeldMark, AuthError> {
        let (owner, (release, released)) = (Uuid::new_v4(), oneshot::channel());
        let (put, is_put) = oneshot::channel();
        // The task also puts the mark, so that it can delete the mark if the caller is dropped meanwhile.
        tokio::spawn(self.clone().keep_mark(owner, put, released));
        let stopped = |_| failed(&"the runtime stopped before the mark of a change of tokens was stored");
        is_put.await.map_err(stopped)??;
        Ok(HeldMark { owner, _release: release })
    }

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

    pub(super) async fn has_mark_of(&self, owner: Uuid) -> Result<bool, AuthError> {
        Ok(self.mark().await?.is_some_and(|mark| mark.owner == owner))
    }

    pub(super) async fn mark(&self) -> Result<Option<ChangeMark>, AuthError> {
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

    /// Simulates that the mark lapses.
    #[cfg(test)]
    pub(in super::super) async fn delete_mark(&self) -> Result<(), AuthError> {
        self.write_mark(None).await
    }
}
