//! OAuth for clients: the authorization of a user at an MCP server.
//!
//! The protocol is that of rmcp: the server's metadata (RFC 9728), the authorization server's (RFC 8414), registration
//! (RFC 7591), PKCE, resource indicators (RFC 8707) and refresh tokens. hier keeps the tokens, encrypted.

mod builder;
mod changes;
mod guard;
mod items;
mod machine;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, WWW_AUTHENTICATE};
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata, CredentialStore,
    OAuthClientConfig, StateStore,
};
use serde_json::json;
use tokio::sync::OnceCell;

use self::builder::AuthOptions;
use self::items::{RegisteredClient, SealedItems};
use self::store::ItemStore;
use crate::error::{McpError, causes, clean, is_passing};

pub use self::builder::McpAuthBuilder;

/// The time limit of the request that finds out what the server needs.
const PROBE: Duration = Duration::from_secs(30);

/// An OAuth authorization of one account at an MCP server. Clones share the authorization.
///
/// An authorization from [`machine`](Self::machine) needs no person. For an authorization from
/// [`builder`](Self::builder), a person visits the URL that [`authorization_url`](Self::authorization_url) returns. The
/// authorization server then sends the browser to the redirect URL of your program, with additional parameters. Pass
/// the whole URL to [`finish`](Self::finish). The client refreshes access tokens before they expire.
///
/// With a [`store`](McpAuthBuilder::store), the encrypted tokens survive restarts, and another process can finish the
/// authorization. Without a store, the tokens are lost when the process ends.
///
/// Requests of the client fail with [`McpError::Authorization`] if there are no tokens, or if the authorization server
/// refuses to refresh them. If the authorization server cannot be reached, requests fail with [`McpError::Connect`],
/// and the tokens are kept.
///
/// ```no_run
/// use hier_core::store::MemoryStore;
/// use hier_mcp::{McpAuth, McpClient, SealKey};
///
/// # async fn docs(key: [u8; 32]) -> Result<(), hier_mcp::McpError> {
/// let url = "https://docs.example.com/mcp";
/// let auth = McpAuth::builder(url, "https://desk.example.com/callback")
///     .client_name("The desk")
///     .store(MemoryStore::default(), SealKey::new(key))
///     .account("ada")
///     .build()?;
/// if !auth.is_authorized().await? {
///     println!("visit {}", auth.authorization_url().await?);
///     // The handler of the redirect URL:
///     auth.finish("https://desk.example.com/callback?code=…&state=…").await?;
/// }
/// let docs = McpClient::http("docs", url).oauth(&auth).build()?;
/// # let _ = docs;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct McpAuth(Arc<AuthState>);

struct AuthState {
    options: AuthOptions,
    items: SealedItems,
    /// The state of the protocol, which all connections share. Created on first use.
    client: OnceCell<AuthClient<reqwest::Client>>,
}

impl fmt::Debug for McpAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ItemStore { url, account, .. } = &self.0.items.store;
        f.debug_struct("McpAuth").field("url", url).field("account", account).finish_non_exhaustive()
    }
}

impl McpAuth {
    /// Creates a builder of an authorization by a person. `url` is the URL of the MCP server. `redirect` is the URL of
    /// your program to which the authorization server sends the person's browser.
    pub fn builder(url: impl Into<String>, redirect: impl Into<String>) -> McpAuthBuilder {
        McpAuthBuilder::new(url.into(), redirect.into())
    }

    /// Creates a builder of an authorization without a person (OAuth client credentials). The client must be registered
    /// with the authorization server.
    ///
    /// ```no_run
    /// use hier_mcp::{McpAuth, McpClient};
    ///
    /// # fn docs(secret: &str) -> Result<(), hier_mcp::McpError> {
    /// let url = "https://docs.example.com/mcp";
    /// let auth = McpAuth::machine(url, "desk", secret).scopes(["read"]).build()?;
    /// let docs = McpClient::http("docs", url).oauth(&auth).build()?;
    /// # let _ = docs;
    /// # Ok(())
    /// # }
    /// ```
    pub fn machine(url: impl Into<String>, id: impl Into<String>, secret: impl Into<String>) -> McpAuthBuilder {
        McpAuthBuilder::new(url.into(), String::new()).machine(id.into(), secret.into())
    }

    fn new(options: AuthOptions, items: SealedItems) -> Self {
        Self(Arc::new(AuthState { options, items, client: OnceCell::new() }))
    }

    /// Returns true if the client has tokens for this account and MCP server. The MCP server may still refuse the
    /// tokens.
    ///
    /// # Errors
    ///
    /// Fails if the store fails, or if the stored tokens were encrypted with another key. Also fails if the MCP server
    /// or the authorization server cannot be reached.
    pub async fn is_authorized(&self) -> Result<bool, McpError> {
        self.has_tokens().await.map_err(|error| self.error(error))
    }

    async fn has_tokens(&self) -> Result<bool, AuthError> {
        if self.0.items.has_current_tokens().await? {
            return Ok(true);
        }
        // Another process may have authorized the client at an authorization server that this process does not know
        // yet.
        Ok(self.0.items.has_any_tokens().await? && {
            self.prepare().await?;
            self.0.items.has_current_tokens().await?
        })
    }

    /// Starts an authorization, and returns the URL that the person must visit within 15 minutes.
    ///
    /// # Errors
    ///
    /// Fails if the MCP server or the authorization server cannot be reached, if these servers publish no metadata, or
    /// if the authorization server refuses the client. For an authorization from [`machine`](Self::machine), this
    /// method always fails.
    pub async fn authorization_url(&self) -> Result<String, McpError> {
        self.begin().await.map_err(|error| self.error(error))
    }

    async fn begin(&self) -> Result<String, AuthError> {
        self.check_person()?;
        let client = self.client().await?;
        let mut manager = client.auth_manager.lock().await;
        let found = self.discover(&mut manager, &client.http_client).await?;
        let AuthOptions { scopes, redirect, .. } = &self.0.options;
        let scopes = if scopes.is_empty() { self.select_scopes(&manager).await? } else { scopes.clone() };
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let known = self.known_client(&found).await?.filter(|client| client.redirect == *redirect);
        match known {
            Some(known) => configure(&mut manager, known)?,
            None => self.register(&mut manager, &found, &scopes).await?,
        }
        manager.get_authorization_url(&scopes).await
    }

    /// Returns the scopes that the server names. If the token lacked scopes, adds these scopes and the scopes of the
    /// token.
    async fn select_scopes(&self, manager: &AuthorizationManager) -> Result<Vec<String>, AuthError> {
        let mut scopes = manager.select_initial_scopes(&[]).await;
        let required = self.0.items.required_scopes().await?;
        if !required.is_empty() {
            let had = CredentialStore::load(&self.0.items).await?.map(|stored| stored.granted_scopes);
            for scope in required.into_iter().chain(had.unwrap_or_default()) {
                if !scopes.contains(&scope) {
                    scopes.push(scope);
                }
            }
        }
        Ok(scopes)
    }

    /// Adds these scopes to the request of the next authorization. They are separated by spaces.
    pub(crate) async fn require(&self, scope: &str) {
        if let Err(error) = self.0.items.require_scopes(scope).await {
            tracing::warn!(server = self.url(), %error, "failed to store the scopes that a token lacks");
        }
    }

    /// Registers the client. If the authorization server can read the document of the client, uses the document
    /// instead.
    async fn register(
        &self,
        manager: &mut AuthorizationManager,
        found: &AuthorizationMetadata,
        scopes: &[&str],
    ) -> Result<(), AuthError> {
        let AuthOptions { redirect, client_name, document, .. } = &self.0.options;
        let reads_documents = found.additional_fields.get("client_id_metadata_document_supported");
        let (id, secret) = if let Some(document) = document.as_ref().filter(|_| reads_documents == Some(&true.into())) {
            (document.clone(), None)
        } else {
            // A program whose redirect URL only works on this machine is not a web application.
            let kind = if redirect.starts_with("https:") { "web" } else { "native" };
            manager.configure_client(OAuthClientConfig::new("", redirect).with_application_type(kind))?;
            let made = manager.register_client(client_name, redirect, scopes).await?;
            (made.client_id, made.client_secret)
        };
        let client = RegisteredClient { id, secret, redirect: redirect.clone(), issuer: found.issuer.clone() };
        self.0.items.put_client(&client).await?;
        configure(manager, client)
    }

    /// Completes an authorization. `redirected` is the whole URL to which the browser was sent.
    ///
    /// Call this method on the `McpAuth` of the person who is signed in to your program. Do not choose it by the URL: an
    /// attacker who sends a person an authorization URL could get access to the person's account.
    ///
    /// Cancel safety: if the future is dropped, the URL may already be used up. The person must then start again.
    ///
    /// # Errors
    ///
    /// Fails if the person or the authorization server refused, if the URL does not belong to an authorization in
    /// progress, or if the URL was used before. Also fails if the store fails, or if one of the servers cannot be
    /// reached.
    pub async fn finish(&self, redirected: &str) -> Result<(), McpError> {
        self.complete(redirected).await.map_err(|error| self.error(error))
    }

    async fn complete(&self, redirected: &str) -> Result<(), AuthError> {
        self.check_person()?;
        let refused = |why: String| AuthError::AuthorizationFailed(why);
        if let Some(why) = refusal(redirected)? {
            return Err(refused(why));
        }
        let AuthorizationCallback { code, csrf_token, issuer: sender, .. } =
            AuthorizationCallback::from_redirect_url(redirected)?;
        let client = self.client().await?;
        let mut manager = client.auth_manager.lock().await;
        let Some(begun) = StateStore::load(&self.0.items, &csrf_token).await? else {
            let why = "the URL does not belong to an open authorization, or was already used: begin again with \
                `McpAuth::authorization_url`";
            return Err(refused(why.to_owned()));
        };
        // Another process may have begun the authorization.
        let found = self.discover(&mut manager, &client.http_client).await?;
        if begun.expected_issuer != found.issuer {
            return Err(refused(
                "the server now names another authorization server: begin again with `McpAuth::authorization_url`"
                    .to_owned(),
            ));
        }
        let _guard = self.0.items.guard().await?;
        let known = self.known_client(&found).await?.ok_or(AuthError::AuthorizationRequired)?;
        configure(&mut manager, known)?;
        manager.exchange_code_for_token_with_issuer(&code, &csrf_token, sender.as_deref()).await?;
        self.0.items.forget_required().await
    }

    /// Deletes the tokens and the registration of the client. After that, the client needs a new authorization.
    ///
    /// If this or another process is refreshing the tokens or completing an authorization, this method first waits
    /// until that work has ended. Otherwise new tokens could be stored after the deletion.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub async fn forget(&self) -> Result<(), McpError> {
        self.0.items.forget().await.map_err(|error| self.error(error))
    }

    pub(crate) fn url(&self) -> &str {
        &self.0.items.store.url
    }

    /// Returns a client that sends the tokens.
    pub(crate) async fn authorized(&self, http: reqwest::Client) -> Result<AuthClient<reqwest::Client>, McpError> {
        let ready = async {
            if self.0.options.is_machine {
                let mut client = self.get_machine_token().await?;
                client.http_client = http;
                return Ok(client);
            }
            if !self.0.items.has_any_tokens().await? {
                return Err(AuthError::AuthorizationRequired);
            }
            let mut client = self.prepare().await?;
            if !self.0.items.has_current_tokens().await? {
                return Err(AuthError::AuthorizationRequired);
            }
            client.http_client = http;
            Ok(client)
        };
        ready.await.map_err(|error| self.error(error))
    }

    /// Reads the metadata of the servers, and prepares the client for the authorization server.
    async fn prepare(&self) -> Result<AuthClient<reqwest::Client>, AuthError> {
        let client = self.client().await?;
        let mut manager = client.auth_manager.lock().await;
        let found = self.discover(&mut manager, &client.http_client).await?;
        if let Some(known) = self.known_client(&found).await? {
            configure(&mut manager, known)?;
        }
        drop(manager);
        Ok(client)
    }

    pub(crate) fn missing(&self) -> McpError {
        let server = self.url().to_owned();
        let reason = match &self.0.options.client {
            Some((id, _)) if self.0.options.is_machine => {
                format!("the server rejects the token of the client `{id}`: check its secret and scopes")
            }
            _ => "send the person to `McpAuth::authorization_url`, then call `McpAuth::finish`".to_owned(),
        };
        McpError::Authorization { server, reason, scope: None }
    }

    fn error(&self, error: AuthError) -> McpError {
        let (server, reason) = (self.url().to_owned(), clean(&causes(&error)));
        match error {
            AuthError::AuthorizationRequired => self.missing(),
            AuthError::NoAuthorizationSupport => {
                let reason =
                    "the server publishes no OAuth metadata: check its URL, or pass a token with `bearer`".to_owned();
                McpError::Authorization { server, reason, scope: None }
            }
            error if is_passing(&error) => McpError::Connect { server, reason },
            _ => McpError::Authorization { server, reason, scope: None },
        }
    }

    async fn client(&self) -> Result<AuthClient<reqwest::Client>, AuthError> {
        let make = || async {
            let mut manager = if self.0.options.allows_private {
                AuthorizationManager::new_allowing_private_addresses(self.url()).await?
            } else {
                AuthorizationManager::new(self.url()).await?
            };
            manager.set_credential_store(self.0.items.clone());
            manager.set_state_store(self.0.items.clone());
            let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(PROBE);
            Ok(AuthClient::new(http.build()?, manager))
        };
        self.0.client.get_or_try_init(make).await.cloned()
    }

    /// Reads the metadata of the servers, and returns that of the authorization server.
    async fn discover(
        &self,
        manager: &mut AuthorizationManager,
        http: &reqwest::Client,
    ) -> Result<AuthorizationMetadata, AuthError> {
        let challenge = self.challenge(http).await;
        let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?;
        if !found.source.is_discovered() {
            return Err(AuthError::NoAuthorizationSupport);
        }
        self.0.items.set_issuer(found.metadata.issuer.as_deref());
        manager.set_metadata(found.metadata.clone());
        Ok(found.metadata)
    }

    /// Sends a request without a token and returns the server's challenge, which contains the location of the metadata
    /// and the required scopes. rmcp would send a `GET`, which servers without streams do not support.
    async fn challenge(&self, http: &reqwest::Client) -> Option<String> {
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {}});
        let sent = http.post(self.url()).header(ACCEPT, "application/json, text/event-stream").json(&request);
        // A server that cannot be reached has no metadata either.
        let answer = sent.send().await.ok().filter(|answer| answer.status() == StatusCode::UNAUTHORIZED)?;
        answer.headers().get(WWW_AUTHENTICATE)?.to_str().ok().map(str::to_owned)
    }

    /// Returns the client that is registered at this authorization server, or `None` if the client must register.
    async fn known_client(&self, found: &AuthorizationMetadata) -> Result<Option<RegisteredClient>, AuthError> {
        let issuer = found.issuer.as_deref();
        let stored = self.0.items.client().await?;
        let Some((id, secret)) = self.0.options.client.clone() else {
            return Ok(stored.filter(|stored| stored.issuer.as_deref() == issuer));
        };
        // An attacker who controls the server could name an authorization server that collects secrets.
        if let Some(RegisteredClient { issuer: before, .. }) = stored.as_ref().filter(|stored| stored.id == id)
            && before.as_deref() != issuer
        {
            let (before, now) = (before.as_deref().unwrap_or_default(), issuer.unwrap_or_default());
            return Err(AuthError::AuthorizationFailed(format!(
                "the client `{id}` is registered at `{before}`, but the server now names `{now}`: call `McpAuth::forget` \
                 if you trust the new authorization server"
            )));
        }
        let redirect = self.0.options.redirect.clone();
        let client = RegisteredClient { id, secret: None, redirect, issuer: issuer.map(str::to_owned) };
        if stored.as_ref() != Some(&client) {
            self.0.items.put_client(&client).await?;
        }
        Ok(Some(RegisteredClient { secret, ..client }))
    }
}

/// Returns the error in the URL to which the browser returned, if there is one.
fn refusal(redirected: &str) -> Result<Option<String>, AuthError> {
    let url = reqwest::Url::parse(redirected)?;
    let parameter =
        |name: &str| url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    let Some(error) = parameter("error") else { return Ok(None) };
    let why = parameter("error_description").map_or_else(String::new, |why| format!(": {why}"));
    Ok(Some(format!("{error}{why}")))
}

fn configure(manager: &mut AuthorizationManager, client: RegisteredClient) -> Result<(), AuthError> {
    let config = OAuthClientConfig::new(client.id, client.redirect);
    manager.configure_client(match client.secret {
        Some(secret) => config.with_client_secret(secret),
        None => config,
    })
}
