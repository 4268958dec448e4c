//! The stored credentials of a client: items of a store, each encrypted for its account, server and purpose.
//!
//! Tokens belong to the authorization server that issued them. As soon as the current one is known, those of others are
//! not loaded, so that no server receives another's tokens.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hier_core::store::{Index, Item, Op, OpResult, Store};
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StateStore, StoredAuthorizationState, StoredCredentials,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::changes::{ChangeBase, TokenChange, TokenChanges};
use crate::seal::SealKey;

/// The namespace of the items.
const NAMESPACE: &str = "mcp_oauth";
/// The field with the encrypted value.
const SEALED: &str = "sealed";
/// The time in which a person can complete an authorization.
const PENDING: Duration = Duration::from_mins(15);
/// The maximum length of the state in the URL of a redirect, which anyone can write.
const LONGEST_STATE: usize = 200;

const TOKENS: &str = "tokens";
const CLIENT: &str = "client";
/// The item of the scopes that the tokens lack.
const REQUIRED: &str = "required";
/// The first pause before tokens are stored again, which doubles up to the longest.
const SAVE_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_SAVE_PAUSE: Duration = Duration::from_secs(1);
/// The time in which a caller waits until its tokens are stored.
const SAVE_WAIT: Duration = Duration::from_secs(10);
/// The time in which a process tries to store new tokens. Its other changes of the tokens wait.
const SAVE_LIMIT: Duration = Duration::from_mins(10);

/// The client as the authorization server knows it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RegisteredClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) redirect: String,
    /// The authorization server.
    pub(super) issuer: Option<String>,
}

#[derive(Clone)]
pub(super) struct SealedItems {
    store: Arc<dyn Store>,
    key: SealKey,
    pub(super) account: String,
    pub(super) url: String,
    /// The authorization server that the MCP server names, once it is known.
    issuer: Arc<Mutex<Option<String>>>,
    pub(super) changes: Arc<TokenChanges>,
}

pub(super) fn failed(error: &dyn fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

impl SealedItems {
    pub(super) fn new((store, key): (Arc<dyn Store>, SealKey), account: String, url: String) -> Self {
        Self { store, key, account, url, issuer: Arc::default(), changes: Arc::default() }
    }

    /// Hides the tokens of other authorization servers from now on.
    pub(super) fn set_issuer(&self, issuer: Option<&str>) {
        *self.issuer.lock().unwrap_or_else(PoisonError::into_inner) = issuer.map(str::to_owned);
    }

    fn is_current(&self, issuer: Option<&str>) -> bool {
        let known = self.issuer.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_none() || known.as_deref() == issuer
    }

    /// The key of an item, and the context of its encryption.
    fn name(&self, what: &str) -> String {
        json!([what, self.account, self.url]).to_string()
    }

    /// Returns the items that the operations read.
    pub(super) async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Option<Item>>, AuthError> {
        let results = self.store.batch(ops).await.map_err(|error| failed(&error))?;
        let item = |result| if let OpResult::Item(item) = result { item } else { None };
        Ok(results.into_iter().map(item).collect())
    }

    fn read_op(&self, what: &str, refresh: Option<bool>) -> Op {
        Op::Get { namespace: vec![NAMESPACE.to_owned()], key: self.name(what), refresh }
    }

    /// Reads an item. With a `refresh` of false, the read does not restart the item's time to live.
    pub(super) async fn read(&self, what: &str, refresh: Option<bool>) -> Result<Option<Item>, AuthError> {
        Ok(self.batch(vec![self.read_op(what, refresh)]).await?.into_iter().flatten().next())
    }

    /// Reads the items on which a change of the tokens builds.
    pub(super) async fn base(&self) -> Result<ChangeBase, AuthError> {
        let read = self.batch([CLIENT, TOKENS].map(|what| self.read_op(what, None)).to_vec()).await?;
        let read = <[_; 2]>::try_from(read).map_err(|_| failed(&"the store returned too few results"))?;
        Ok(ChangeBase::new(read))
    }

    async fn get<T: DeserializeOwned>(&self, what: &str) -> Result<Option<T>, AuthError> {
        self.get_with(what, None).await
    }

    async fn get_with<T: DeserializeOwned>(&self, what: &str, refresh: Option<bool>) -> Result<Option<T>, AuthError> {
        let name = self.name(what);
        let Some(item) = self.read(what, refresh).await? else { return Ok(None) };
        let sealed = item.value.get(SEALED).and_then(Value::as_str).unwrap_or_default();
        let Some(plain) = self.key.decrypt(&name, sealed) else {
            let why = "the stored tokens were encrypted with another key: use that key, or delete them with `McpAuth::forget`";
            return Err(AuthError::InternalError(why.to_owned()));
        };
        serde_json::from_slice(&plain).map(Some).map_err(|error| failed(&error))
    }

    fn seal<T: Serialize>(&self, what: &str, value: &T) -> Result<Map<String, Value>, AuthError> {
        let plain = serde_json::to_vec(value).map_err(|error| failed(&error))?;
        let sealed = self.key.encrypt(&self.name(what), &plain).map_err(|error| failed(&error))?;
        Ok(Map::from_iter([(SEALED.to_owned(), Value::from(sealed))]))
    }

    fn put<T: Serialize>(&self, what: &str, value: &T, lasts: Option<Duration>) -> Result<Op, AuthError> {
        Ok(self.write(what, Some(self.seal(what, value)?), lasts))
    }

    pub(super) fn delete(&self, what: &str) -> Op {
        self.write(what, None, None)
    }

    pub(super) fn write(&self, what: &str, value: Option<Map<String, Value>>, time_to_live: Option<Duration>) -> Op {
        let (namespace, key) = (vec![NAMESPACE.to_owned()], self.name(what));
        // An index would send the value to a model.
        Op::Put { namespace, key, value, index: Index::None, time_to_live }
    }

    /// Returns the tokens of any authorization server. New tokens count before the store has them.
    async fn tokens(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match self.changes.unsaved() {
            Some(tokens) => Ok(Some(tokens)),
            None => self.get(TOKENS).await,
        }
    }

    pub(super) async fn has_any_tokens(&self) -> Result<bool, AuthError> {
        Ok(self.tokens().await?.is_some())
    }

    /// Returns true if there are tokens of the current authorization server.
    pub(super) async fn has_current_tokens(&self) -> Result<bool, AuthError> {
        Ok(CredentialStore::load(self).await?.is_some_and(|stored| stored.token_response.is_some()))
    }

    pub(super) async fn client(&self) -> Result<Option<RegisteredClient>, AuthError> {
        self.get(CLIENT).await
    }

    pub(super) async fn put_client(&self, client: &RegisteredClient) -> Result<(), AuthError> {
        let sealed = self.seal(CLIENT, client)?;
        self.batch(vec![self.write(CLIENT, Some(sealed.clone()), None)]).await?;
        self.changes.note_client(sealed);
        Ok(())
    }

    pub(super) async fn required_scopes(&self) -> Result<Vec<String>, AuthError> {
        Ok(self.get(REQUIRED).await?.unwrap_or_default())
    }

    /// Stores scopes that the tokens lack, separated by spaces.
    pub(super) async fn require_scopes(&self, scope: &str) -> Result<(), AuthError> {
        let scopes: Vec<&str> = scope.split_whitespace().collect();
        self.batch(vec![self.put(REQUIRED, &scopes, None)?]).await.map(|_| ())
    }

    pub(super) async fn forget_required(&self) -> Result<(), AuthError> {
        self.batch(vec![self.delete(REQUIRED)]).await.map(|_| ())
    }

    pub(super) async fn forget(&self) -> Result<(), AuthError> {
        let _guard = self.guard().await?;
        self.batch([TOKENS, CLIENT, REQUIRED].map(|what| self.delete(what)).to_vec()).await.map(|_| ())
    }

    /// Stores the tokens of a change. It tries again while the store fails, because the authorization server no longer
    /// accepts the previous refresh token.
    async fn store_tokens(self, sealed: Map<String, Value>, change: Arc<TokenChange>) -> Result<(), AuthError> {
        let attempts = async {
            let mut pause = SAVE_PAUSE;
            loop {
                match self.try_to_store(&sealed, &change).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => return Err(failed(&"another process changed the tokens meanwhile: try again")),
                    Err(error) => self.changes.set_save_error(error.to_string()),
                }
                sleep(pause).await;
                pause = (2 * pause).min(LONGEST_SAVE_PAUSE);
            }
        };
        let stored = timeout(SAVE_LIMIT, attempts).await.unwrap_or_else(|_| Err(self.unsaved_error()));
        if let Err(error) = &stored {
            tracing::warn!(server = self.url, %error, "new tokens are not stored");
        }
        self.changes.set_unsaved(None);
        stored
    }

    /// Returns false if another process has changed the tokens.
    async fn try_to_store(&self, sealed: &Map<String, Value>, change: &TokenChange) -> Result<bool, AuthError> {
        if !self.regain_mark(change.mark.owner).await? {
            return Err(failed(&"another process is changing the tokens"));
        }
        let stored = self.base().await?;
        if stored.tokens.as_ref() == Some(sealed) {
            // An attempt succeeded, but its result was lost.
            return Ok(true);
        }
        let is_allowed = change.base.lock().unwrap_or_else(PoisonError::into_inner).allows_change_of(&stored);
        if is_allowed {
            self.batch(vec![self.write(TOKENS, Some(sealed.clone()), None)]).await?;
        }
        Ok(is_allowed)
    }

    fn unsaved_error(&self) -> AuthError {
        failed(&self.changes.save_error().unwrap_or_else(|| "the store does not answer".to_owned()))
    }
}

#[hier_core::async_trait]
impl CredentialStore for SealedItems {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.tokens().await?.filter(|stored| self.is_current(stored.issuer.as_deref())))
    }

    /// Stores tokens under a [guard](Self::guard). If the store fails for longer than the call waits, this process uses
    /// the tokens and continues to store them, and the change does not end before.
    ///
    /// Cancel safety: dropping the future does not stop the storing.
    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let Some(change) = self.changes.current() else { return Err(failed(&"tokens change only under their guard")) };
        let sealed = self.seal(TOKENS, &credentials)?;
        self.changes.set_unsaved(Some(credentials));
        match timeout(SAVE_WAIT, tokio::spawn(self.clone().store_tokens(sealed, change))).await {
            Ok(Ok(stored)) => stored,
            Ok(Err(stopped)) => Err(failed(&stopped)),
            Err(_) => Err(self.unsaved_error()),
        }
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.changes.set_unsaved(None);
        self.batch(vec![self.delete(TOKENS)]).await.map(|_| ())
    }

    /// Deletes refused tokens, unless another process has replaced them.
    async fn on_refresh_token_rejected(&self, rejected: &StoredCredentials) -> Result<(), AuthError> {
        let content = |tokens: &StoredCredentials| serde_json::to_value(tokens).map_err(|error| failed(&error));
        let is_stored = match CredentialStore::load(self).await? {
            Some(stored) => content(&stored)? == content(rejected)?,
            None => false,
        };
        if is_stored { self.clear().await } else { Ok(()) }
    }

    /// Waits until no other task or process changes the tokens. A refresh token that is used twice may end the authorization.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        self.guard().await.map(CredentialRefreshGuard::new).map(Some)
    }
}

fn pending(state: &str) -> String {
    format!("pending {state}")
}

#[hier_core::async_trait]
impl StateStore for SealedItems {
    async fn save(&self, state: &str, begun: StoredAuthorizationState) -> Result<(), AuthError> {
        self.batch(vec![self.put(&pending(state), &begun, Some(PENDING))?]).await.map(|_| ())
    }

    async fn load(&self, state: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        if state.len() > LONGEST_STATE { Ok(None) } else { self.get_with(&pending(state), Some(false)).await }
    }

    async fn delete(&self, state: &str) -> Result<(), AuthError> {
        self.batch(vec![Self::delete(self, &pending(state))]).await.map(|_| ())
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
    async fn items_are_bound_to_their_account_and_purpose() {
        let [first, mut second] = two();
        first.batch(vec![first.put(TOKENS, &"secret", None).unwrap()]).await.unwrap();
        second.account = "ben".to_owned();
        assert_eq!(second.get::<String>(TOKENS).await.unwrap(), None);
        // A copy of the item has another context.
        let get = Op::Get { namespace: vec![NAMESPACE.to_owned()], key: first.name(TOKENS), refresh: None };
        let copied = first.batch(vec![get]).await.unwrap().remove(0).unwrap().value;
        second.batch(vec![second.write(TOKENS, Some(copied), None)]).await.unwrap();
        let refused = second.get::<String>(TOKENS).await.unwrap_err().to_string();
        assert!(refused.contains("were encrypted with another key"), "{refused}");
        let long = "x".repeat(LONGEST_STATE + 1);
        assert!(StateStore::load(&first, &long).await.unwrap().is_none());
    }
}
