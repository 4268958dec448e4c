use std::fmt;
use std::sync::Arc;

use hier_core::store::{MemoryStore, Store};

use super::McpAuth;
use super::items::SealedItems;
use crate::error::McpError;
use crate::seal::SealKey;

pub(super) struct AuthOptions {
    pub(super) redirect: String,
    pub(super) client_name: String,
    /// True for a client that needs no person.
    pub(super) is_machine: bool,
    /// The id and the secret of a client that was registered manually.
    pub(super) client: Option<(String, Option<String>)>,
    /// The URL of the document that describes the client.
    pub(super) document: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) allows_private: bool,
}

/// A builder of an [`McpAuth`]. [`McpAuth::builder`] and [`McpAuth::machine`] create it.
#[must_use = "a builder does nothing until it is built"]
pub struct McpAuthBuilder {
    url: String,
    options: AuthOptions,
    store: Option<(Arc<dyn Store>, SealKey)>,
    account: String,
}

impl fmt::Debug for McpAuthBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The output omits the client's secret.
        f.debug_struct("McpAuthBuilder").field("url", &self.url).finish_non_exhaustive()
    }
}

impl McpAuthBuilder {
    pub(super) fn new(url: String, redirect: String) -> Self {
        let options = AuthOptions {
            redirect,
            client_name: "hier".to_owned(),
            is_machine: false,
            client: None,
            document: None,
            scopes: Vec::new(),
            allows_private: false,
        };
        Self { url, options, store: None, account: String::new() }
    }

    pub(super) fn machine(mut self, id: String, secret: String) -> Self {
        self.options.is_machine = true;
        self.client_secret(id, secret)
    }

    /// Sets the name under which the client registers itself with the authorization server. The authorization server
    /// shows this name to the person. Defaults to `hier`.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.options.client_name = name.into();
        self
    }

    /// Sets the URL of a document that describes the client (Client ID Metadata Document). With authorization servers
    /// that support such documents, the URL is the id of the client. With other servers, and by default, the client
    /// registers itself.
    pub fn client_document(mut self, url: impl Into<String>) -> Self {
        self.options.document = Some(url.into());
        self
    }

    /// Sets the id of a client that is already registered with the authorization server. By default, the client
    /// registers itself.
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.options.client = Some((id.into(), None));
        self
    }

    /// Sets the id and the secret of a client that is already registered with the authorization server.
    pub fn client_secret(mut self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        self.options.client = Some((id.into(), Some(secret.into())));
        self
    }

    /// Sets the scopes to request. Defaults to the scopes that the MCP server names. If it names any, and the
    /// authorization server supports `offline_access`, this scope is added.
    pub fn scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.options.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Allows authorization servers at addresses in a private network, even if the MCP server is at a public address.
    /// By default, such an authorization server is an error, because a public MCP server could otherwise use the client
    /// to send requests into the private network.
    pub fn allow_private_addresses(mut self) -> Self {
        self.options.allows_private = true;
        self
    }

    /// Sets the store that keeps the tokens, and the key that encrypts them. By default, only the memory of the process
    /// keeps the tokens.
    pub fn store(mut self, store: impl Store, key: SealKey) -> Self {
        self.store = Some((Arc::new(store), key));
        self
    }

    /// Sets the account to which the tokens belong, such as the id of a user of your program. Defaults to an empty
    /// string.
    pub fn account(mut self, account: impl Into<String>) -> Self {
        self.account = account.into();
        self
    }

    /// Builds the authorization. It connects to the MCP server and the authorization server when it is first used.
    ///
    /// # Errors
    ///
    /// Fails if a URL is invalid, or if the operating system cannot provide random numbers. An authorization from
    /// [`McpAuth::machine`] also fails if [`client_id`](Self::client_id) or [`client_document`](Self::client_document)
    /// is set.
    pub fn build(self) -> Result<McpAuth, McpError> {
        let Self { url, options, store, account } = self;
        let invalid = |reason: String| McpError::Options { server: url.clone(), reason };
        let redirect = Some(&options.redirect).filter(|_| !options.is_machine);
        for given in [&url].into_iter().chain(redirect).chain(&options.document) {
            reqwest::Url::parse(given).map_err(|error| invalid(format!("the URL `{given}`: {error}")))?;
        }
        if options.is_machine && (options.document.is_some() || !matches!(options.client, Some((_, Some(_))))) {
            let why = "`client_id` and `client_document` are for authorizations by a person: remove them";
            return Err(invalid(why.to_owned()));
        }
        let stored = match store {
            Some(given) => given,
            None => (Arc::new(MemoryStore::default()) as Arc<dyn Store>, SealKey::random()?),
        };
        Ok(McpAuth::new(options, SealedItems::new(stored, account, url)))
    }
}
