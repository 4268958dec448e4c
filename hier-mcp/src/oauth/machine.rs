//! The authorization of a program without a person: client credentials.

use rmcp::transport::auth::{AuthClient, AuthError, ClientCredentialsConfig};

use super::McpAuth;
use super::builder::AuthOptions;

impl McpAuth {
    /// Gets a new token with the credentials of the client.
    pub(super) async fn get_machine_token(&self) -> Result<AuthClient<reqwest::Client>, AuthError> {
        let client = self.client().await?;
        let mut manager = client.auth_manager.lock().await;
        let found = self.discover(&mut manager, &client.http_client).await?;
        let AuthOptions { scopes, .. } = &self.0.options;
        let scopes = if scopes.is_empty() { self.select_scopes(&manager).await? } else { scopes.clone() };
        let _guard = self.0.items.guard().await?;
        let known = self.known_client(&found).await?.ok_or(AuthError::AuthorizationRequired)?;
        let credentials = ClientCredentialsConfig::ClientSecret {
            client_id: known.id,
            client_secret: known.secret.unwrap_or_default(),
            scopes,
            resource: Some(self.url().to_owned()),
        };
        manager.validate_client_credentials_metadata(&credentials)?;
        manager.configure_client_credentials(&credentials)?;
        manager.exchange_client_credentials(&credentials).await?;
        self.0.items.forget_required().await?;
        drop(manager);
        Ok(client)
    }

    /// Fails for a client that needs no person.
    pub(super) fn check_person(&self) -> Result<(), AuthError> {
        if self.0.options.is_machine {
            let why = "a client of `McpAuth::machine` authorizes itself, without a person: remove this call";
            return Err(AuthError::AuthorizationFailed(why.to_owned()));
        }
        Ok(())
    }
}
