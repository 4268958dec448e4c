//! The items of one account at one MCP server. Each item is encrypted for its account, server and purpose.
//!
//! Only a [`TokenChange`] writes the tokens. All other items are [`FreeItem`]s.

mod change;
mod mark;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hier_core::store::{Index, Item, Op, OpResult, Store};
use rmcp::transport::auth::AuthError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::seal::SealKey;

pub(super) use self::change::TokenChange;
#[cfg(test)]
pub(super) use self::mark::{LAPSE, RENEWAL, SETTLING};

/// The namespace of the items.
const NAMESPACE: &str = "mcp_oauth";
/// The field with the encrypted value.
const SEALED: &str = "sealed";

/// An item that a process may write at any time.
#[derive(Clone, Copy)]
pub(super) enum FreeItem<'a> {
    Client,
    Required,
    /// The process that changes the tokens. It is not encrypted, so that a process with another key can delete the
    /// tokens.
    Mark,
    /// An authorization in progress, by its state.
    Pending(&'a str),
}

#[derive(Clone, Copy)]
pub(super) enum StoredItem<'a> {
    Tokens,
    Free(FreeItem<'a>),
}

impl<'a> From<FreeItem<'a>> for StoredItem<'a> {
    fn from(item: FreeItem<'a>) -> Self {
        Self::Free(item)
    }
}

#[derive(Clone)]
pub(super) struct ItemStore {
    store: Arc<dyn Store>,
    key: SealKey,
    pub(super) account: String,
    pub(super) url: String,
}

pub(super) fn failed(error: &dyn fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

impl ItemStore {
    pub(super) fn new((store, key): (Arc<dyn Store>, SealKey), account: String, url: String) -> Self {
        Self { store, key, account, url }
    }

    /// The key of an item, and the context of its encryption.
    fn name(&self, item: StoredItem<'_>) -> String {
        let what = match item {
            StoredItem::Tokens => "tokens",
            StoredItem::Free(FreeItem::Client) => "client",
            StoredItem::Free(FreeItem::Required) => "required",
            StoredItem::Free(FreeItem::Mark) => "changing",
            StoredItem::Free(FreeItem::Pending(state)) => &format!("pending {state}"),
        };
        json!([what, self.account, self.url]).to_string()
    }

    /// Executes the operations and returns the items that they read.
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Option<Item>>, AuthError> {
        let results = self.store.batch(ops).await.map_err(|error| failed(&error))?;
        let item = |result| if let OpResult::Item(item) = result { item } else { None };
        Ok(results.into_iter().map(item).collect())
    }

    fn read_op(&self, item: StoredItem<'_>, refresh: Option<bool>) -> Op {
        Op::Get { namespace: vec![NAMESPACE.to_owned()], key: self.name(item), refresh }
    }

    fn write_op(&self, item: StoredItem<'_>, value: Option<Map<String, Value>>, lasts: Option<Duration>) -> Op {
        let (namespace, key) = (vec![NAMESPACE.to_owned()], self.name(item));
        // With an index, the store would send the value to an embedding model.
        Op::Put { namespace, key, value, index: Index::None, time_to_live: lasts }
    }

    /// Reads an item. With a `refresh` of false, the read does not restart the item's time to live.
    pub(super) async fn read(&self, item: StoredItem<'_>, refresh: Option<bool>) -> Result<Option<Item>, AuthError> {
        Ok(self.batch(vec![self.read_op(item, refresh)]).await?.into_iter().flatten().next())
    }

    pub(super) async fn get<'a, T: DeserializeOwned>(
        &self,
        item: impl Into<StoredItem<'a>>,
        refresh: Option<bool>,
    ) -> Result<Option<T>, AuthError> {
        let item = item.into();
        let Some(found) = self.read(item, refresh).await? else { return Ok(None) };
        let sealed = found.value.get(SEALED).and_then(Value::as_str).unwrap_or_default();
        let Some(plain) = self.key.decrypt(&self.name(item), sealed) else {
            let why = "the stored tokens were encrypted with another key: use that key, or delete them with `McpAuth::forget`";
            return Err(AuthError::InternalError(why.to_owned()));
        };
        serde_json::from_slice(&plain).map(Some).map_err(|error| failed(&error))
    }

    pub(super) fn seal<'a, T: Serialize>(
        &self,
        item: impl Into<StoredItem<'a>>,
        value: &T,
    ) -> Result<Map<String, Value>, AuthError> {
        let plain = serde_json::to_vec(value).map_err(|error| failed(&error))?;
        let sealed = self.key.encrypt(&self.name(item.into()), &plain).map_err(|error| failed(&error))?;
        Ok(Map::from_iter([(SEALED.to_owned(), Value::from(sealed))]))
    }

    /// Writes an item. Deletes the item if `value` is `None`.
    pub(super) async fn write(
        &self,
        item: FreeItem<'_>,
        value: Option<Map<String, Value>>,
        lasts: Option<Duration>,
    ) -> Result<(), AuthError> {
        self.batch(vec![self.write_op(item.into(), value, lasts)]).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use hier_core::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn items_are_bound_to_their_account_and_purpose() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let items = |account: &str| {
            ItemStore::new((store.clone(), SealKey::new([7; 32])), account.to_owned(), "a:b".to_owned())
        };
        let (first, second) = (items("ada"), items("ben"));
        let client = first.seal(FreeItem::Client, &"secret").unwrap();
        first.write(FreeItem::Client, Some(client.clone()), None).await.unwrap();
        assert_eq!(first.get::<String>(FreeItem::Client, None).await.unwrap().as_deref(), Some("secret"));
        assert_eq!(second.get::<String>(FreeItem::Client, None).await.unwrap(), None);
        // The context of a copied item differs, so the copy cannot be decrypted.
        for (items, item) in [(&second, FreeItem::Client), (&first, FreeItem::Required)] {
            items.write(item, Some(client.clone()), None).await.unwrap();
            let refused = items.get::<String>(item, None).await.unwrap_err().to_string();
            assert!(refused.contains("were encrypted with another key"), "{refused}");
        }
    }
}
