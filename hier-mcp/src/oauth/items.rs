//! The stored credentials of a client: items of a store, each encrypted for its account, server and purpose.
//!
//! Tokens belong to the authorization server that issued them. As soon as the client knows the current authorization
//! server, it does not load tokens of other ones, so that no server receives another server's tokens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hier_core::store::Store;
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StateStore, StoredAuthorizationState, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use super::changes::TokenChanges;
use super::store::{FreeItem, ItemStore, StoredItem, TokenChange, failed};
use crate::seal::SealKey;

/// The time in which a person can complete an authorization.
const PENDING: Duration = Duration::from_mins(15);
/// The maximum length of the state in the URL of a redirect. An attacker can choose the state.
const LONGEST_STATE: usize = 200;
/// The first pause before another attempt to store tokens. The pause doubles up to the longest pause.
const SAVE_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_SAVE_PAUSE: Duration = Duration::from_secs(1);
/// The time for which a caller waits until its tokens are stored.
const SAVE_WAIT: Duration = Duration::from_secs(10);
/// The time for which a process tries to store new tokens. Its other changes of the tokens wait meanwhile.
const SAVE_LIMIT: Duration = Duration::from_mins(10);

/// The client as the authorization server knows it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RegisteredClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) redirect: String,
    pub(super) issuer: Option<String>,
}

#[derive(Clone)]
pub(super) struct SealedItems {
    pub(super) store: ItemStore,
    /// The authorization server that the MCP server names. `None` until it is known.
    issuer: Arc<Mutex<Option<String>>>,
    pub(super) changes: Arc<TokenChanges>,
}

impl SealedItems {
    pub(super) fn new(store: (Arc<dyn Store>, SealKey), account: String, url: String) -> Self {
        Self { store: ItemStore::new(store, account, url), issuer: Arc::default(), changes: Arc::default() }
    }

    /// Hides the tokens of other authorization servers from now on.
    pub(super) fn set_issuer(&self, issuer: Option<&str>) {
        *self.issuer.lock().unwrap_or_else(PoisonError::into_inner) = issuer.map(str::to_owned);
    }

    fn is_current(&self, issuer: Option<&str>) -> bool {
        let known = self.issuer.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_none() || known.as_deref() == issuer
    }

    /// Returns the tokens of any authorization server. Prefers new tokens that the store does not have yet.
    async fn tokens(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match self.changes.unsaved() {
            Some(tokens) => Ok(Some(tokens)),
            None => self.store.get(StoredItem::Tokens, None).await,
        }
    }

    pub(super) async fn has_any_tokens(&self) -> Result<bool, AuthError> {
        Ok(self.tokens().await?.is_some())
    }

    pub(super) async fn has_current_tokens(&self) -> Result<bool, AuthError> {
        Ok(CredentialStore::load(self).await?.is_some_and(|stored| stored.token_response.is_some()))
    }

    pub(super) async fn client(&self) -> Result<Option<RegisteredClient>, AuthError> {
        self.store.get(FreeItem::Client, None).await
    }

    pub(super) async fn put_client(&self, client: &RegisteredClient) -> Result<(), AuthError> {
        let sealed = self.store.seal(FreeItem::Client, client)?;
        self.store.write(FreeItem::Client, Some(sealed.clone()), None).await?;
        if let Some(change) = self.changes.current() {
            change.note_client(sealed);
        }
        Ok(())
    }

    pub(super) async fn required_scopes(&self) -> Result<Vec<String>, AuthError> {
        Ok(self.store.get(FreeItem::Required, None).await?.unwrap_or_default())
    }

    /// Stores scopes that the tokens lack, separated by spaces.
    pub(super) async fn require_scopes(&self, scope: &str) -> Result<(), AuthError> {
        let scopes: Vec<&str> = scope.split_whitespace().collect();
        self.store.write(FreeItem::Required, Some(self.store.seal(FreeItem::Required, &scopes)?), None).await
    }

    pub(super) async fn forget_required(&self) -> Result<(), AuthError> {
        self.store.write(FreeItem::Required, None, None).await
    }

    pub(super) async fn forget(&self) -> Result<(), AuthError> {
        self.guard().await?.forget().await
    }

    /// Returns the change in progress. rmcp does not pass its guard to the calls that it makes while it holds the
    /// guard.
    fn current_change(&self) -> Result<Arc<TokenChange>, AuthError> {
        self.changes.current().ok_or_else(|| failed(&"tokens change only under their guard"))
    }

    /// Stores the tokens of a change. Repeats failed attempts, because the authorization server no longer accepts the
    /// previous refresh token.
    async fn store_tokens(self, sealed: Map<String, Value>, change: Arc<TokenChange>) -> Result<(), AuthError> {
        let attempts = async {
            let mut pause = SAVE_PAUSE;
            loop {
                match change.write(Some(&sealed)).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => return Err(failed(&"another process changed the tokens at the same time: try again")),
                    Err(error) => self.changes.set_save_error(error.to_string()),
                }
                sleep(pause).await;
                pause = (2 * pause).min(LONGEST_SAVE_PAUSE);
            }
        };
        let stored = timeout(SAVE_LIMIT, attempts).await.unwrap_or_else(|_| Err(self.unsaved_error()));
        if let Err(error) = &stored {
            tracing::warn!(server = self.store.url, %error, "new tokens were not stored: if the next calls fail, authorize \
                the client again");
        }
        self.changes.set_unsaved(None);
        stored
    }

    fn unsaved_error(&self) -> AuthError {
        failed(&self.changes.save_error().unwrap_or_else(|| "the store does not respond".to_owned()))
    }
}

#[hier_core::async_trait]
impl CredentialStore for SealedItems {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.tokens().await?.filter(|stored| self.is_current(stored.issuer.as_deref())))
    }

    /// Stores tokens under a [guard](Self::guard). If the store fails for longer than the call waits, this process uses
    /// the tokens and continues to store them. The change then lasts until this ends.
    ///
    /// Cancel safety: dropping the future does not stop the attempts.
    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let change = self.current_change()?;
        let sealed = self.store.seal(StoredItem::Tokens, &credentials)?;
        self.changes.set_unsaved(Some(credentials));
        match timeout(SAVE_WAIT, tokio::spawn(self.clone().store_tokens(sealed, change))).await {
            Ok(Ok(stored)) => stored,
            Ok(Err(stopped)) => Err(failed(&stopped)),
            Err(_) => Err(self.unsaved_error()),
        }
    }

    /// Deletes the tokens under a [guard](Self::guard), unless another process has replaced them.
    async fn clear(&self) -> Result<(), AuthError> {
        self.current_change()?.write(None).await?;
        self.changes.set_unsaved(None);
        Ok(())
    }

    /// Deletes rejected tokens, unless another process has replaced them.
    async fn on_refresh_token_rejected(&self, rejected: &StoredCredentials) -> Result<(), AuthError> {
        let content = |tokens: &StoredCredentials| serde_json::to_value(tokens).map_err(|error| failed(&error));
        let is_stored = match CredentialStore::load(self).await? {
            Some(stored) => content(&stored)? == content(rejected)?,
            None => false,
        };
        if is_stored { self.clear().await } else { Ok(()) }
    }

    /// Waits until no other task or process changes the tokens. The authorization may end if a refresh token is used
    /// twice.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        self.guard().await.map(CredentialRefreshGuard::new).map(Some)
    }
}

#[hier_core::async_trait]
impl StateStore for SealedItems {
    async fn save(&self, state: &str, begun: StoredAuthorizationState) -> Result<(), AuthError> {
        let item = FreeItem::Pending(state);
        self.store.write(item, Some(self.store.seal(item, &begun)?), Some(PENDING)).await
    }

    async fn load(&self, state: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        if state.len() > LONGEST_STATE {
            return Ok(None);
        }
        self.store.get(FreeItem::Pending(state), Some(false)).await
    }

    async fn delete(&self, state: &str) -> Result<(), AuthError> {
        self.store.write(FreeItem::Pending(state), None, None).await
    }
}

#[cfg(test)]
mod tests {
    use hier_core::store::MemoryStore;

    use super::*;

    fn two() -> [SealedItems; 2] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        [1, 2].map(|_| SealedItems::new((store.clone(), SealKey::new([7; 32])), "ada".to_owned(), "a:b".to_owned()))
    }

    fn tokens(id: &str, issuer: &str) -> StoredCredentials {
        StoredCredentials::new(id.to_owned(), None, Vec::new(), Some(1)).with_issuer(Some(issuer.to_owned()))
    }

    async fn stored(items: &SealedItems) -> Option<String> {
        CredentialStore::load(items).await.unwrap().map(|stored| stored.client_id)
    }

    async fn save(items: &SealedItems, tokens: StoredCredentials) -> Result<(), AuthError> {
        let _guard = items.guard().await?;
        CredentialStore::save(items, tokens).await
    }

    #[tokio::test]
    async fn only_stored_tokens_are_deleted_when_they_are_refused() {
        let [first, second] = two();
        let (old, new) = (tokens("old", "x"), tokens("new", "x"));
        save(&first, new.clone()).await.unwrap();
        let _guard = second.guard().await.unwrap();
        second.on_refresh_token_rejected(&old).await.unwrap();
        assert_eq!(stored(&first).await.as_deref(), Some("new"));
        second.on_refresh_token_rejected(&new).await.unwrap();
        assert_eq!(stored(&first).await, None);
    }

    #[tokio::test]
    async fn tokens_of_another_server_are_hidden() {
        let [first, second] = two();
        save(&first, tokens("a", "x")).await.unwrap();
        first.set_issuer(Some("y"));
        assert_eq!((stored(&first).await, stored(&second).await.as_deref()), (None, Some("a")));
        assert!(first.has_any_tokens().await.unwrap());
    }

    #[tokio::test]
    async fn overlong_state_of_a_redirect_is_not_looked_up() {
        let [items, _] = two();
        let long = "x".repeat(LONGEST_STATE + 1);
        assert!(StateStore::load(&items, &long).await.unwrap().is_none());
    }
}
