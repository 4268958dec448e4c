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

use super::changes::TokenChanges;
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
/// The first pause before tokens are stored again, which doubles, and the number of attempts: about 13 seconds.
const SAVE_PAUSE: Duration = Duration::from_millis(100);
const SAVE_ATTEMPTS: u32 = 8;

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

    pub(super) async fn batch(&self, ops: Vec<Op>) -> Result<Option<Item>, AuthError> {
        match self.store.batch(ops).await.map_err(|error| failed(&error))?.into_iter().next() {
            Some(OpResult::Item(item)) => Ok(item),
            _ => Ok(None),
        }
    }

    /// Reads an item. With a `refresh` of false, the read does not restart the item's time to live.
    pub(super) async fn read(&self, what: &str, refresh: Option<bool>) -> Result<Option<Item>, AuthError> {
        let namespace = vec![NAMESPACE.to_owned()];
        self.batch(vec![Op::Get { namespace, key: self.name(what), refresh }]).await
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

    fn put<T: Serialize>(&self, what: &str, value: &T, lasts: Option<Duration>) -> Result<Op, AuthError> {
        let plain = serde_json::to_vec(value).map_err(|error| failed(&error))?;
        let sealed = self.key.encrypt(&self.name(what), &plain).map_err(|error| failed(&error))?;
        Ok(self.write(what, Some(Map::from_iter([(SEALED.to_owned(), Value::from(sealed))])), lasts))
    }

    pub(super) fn delete(&self, what: &str) -> Op {
        self.write(what, None, None)
    }

    pub(super) fn write(&self, what: &str, value: Option<Map<String, Value>>, time_to_live: Option<Duration>) -> Op {
        let (namespace, key) = (vec![NAMESPACE.to_owned()], self.name(what));
        // An index would send the value to a model.
        Op::Put { namespace, key, value, index: Index::None, time_to_live }
    }

    pub(super) async fn has_any_tokens(&self) -> Result<bool, AuthError> {
        self.get::<StoredCredentials>(TOKENS).await.map(|stored| stored.is_some())
    }

    /// Returns true if there are tokens of the current authorization server.
    pub(super) async fn has_current_tokens(&self) -> Result<bool, AuthError> {
        Ok(CredentialStore::load(self).await?.is_some_and(|stored| stored.token_response.is_some()))
    }

    pub(super) async fn client(&self) -> Result<Option<RegisteredClient>, AuthError> {
        self.get(CLIENT).await
    }

    pub(super) async fn put_client(&self, client: &RegisteredClient) -> Result<(), AuthError> {
        self.batch(vec![self.put(CLIENT, client, None)?]).await.map(|_| ())
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
}

#[hier_core::async_trait]
impl CredentialStore for SealedItems {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let stored: Option<StoredCredentials> = self.get(TOKENS).await?;
        Ok(stored.filter(|stored| self.is_current(stored.issuer.as_deref())))
    }

    /// Stores tokens under a [guard](Self::guard). It tries again for a while, because the authorization server no longer
    /// accepts the previous refresh token.
    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let put = self.put(TOKENS, &credentials, None)?;
        let mut pauses = (0..SAVE_ATTEMPTS - 1).map(|attempt| SAVE_PAUSE * 2_u32.pow(attempt));
        loop {
            let stored = async {
                let owns_mark = self.owns_mark().await?;
                if owns_mark {
                    self.batch(vec![put.clone()]).await?;
                }
                Ok(owns_mark)
            };
            match (stored.await, pauses.next()) {
                (Ok(true), _) => return Ok(()),
                (Ok(false), _) => return Err(failed(&"another process changed the tokens meanwhile: try again")),
                (Err(error), None) => return Err(error),
                (Err(_), Some(pause)) => tokio::time::sleep(pause).await,
            }
        }
    }

    async fn clear(&self) -> Result<(), AuthError> {
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
        let copied = first.batch(vec![get]).await.unwrap().unwrap().value;
        second.batch(vec![second.write(TOKENS, Some(copied), None)]).await.unwrap();
        let refused = second.get::<String>(TOKENS).await.unwrap_err().to_string();
        assert!(refused.contains("were encrypted with another key"), "{refused}");
        let long = "x".repeat(LONGEST_STATE + 1);
        assert!(StateStore::load(&first, &long).await.unwrap().is_none());
    }
}
