use std::fmt;

use async_trait::async_trait;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Map, Value};

use super::{Auth, Credentials, User};
use crate::error::ApiError;

/// An [`Auth`] that identifies users by JSON Web Tokens. The claim `sub` is the user's identity. The claims `scope`
/// (words in a string) and `permissions` (a list of strings) are the user's permissions. [`User::claims`] contains all
/// claims.
///
/// A token must have an expiry (`exp`) and may have a start (`nbf`). For both, the clocks of the issuer and the server
/// may differ by up to 60 seconds.
///
/// ```
/// use hier_server::auth::Jwt;
///
/// let auth = Jwt::hs256(b"a long random secret").issuer("https://login.example.org").audience("desk");
/// # let _ = auth;
/// ```
pub struct Jwt {
    key: DecodingKey,
    validation: Validation,
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("algorithms", &self.validation.algorithms).finish_non_exhaustive()
    }
}

/// The error for a public key that cannot be parsed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot parse the public key of the tokens: {0}; write the key in PEM format (`-----BEGIN PUBLIC KEY-----`)")]
pub struct BadKey(String);

impl Jwt {
    fn new(key: DecodingKey, algorithm: Algorithm) -> Self {
        let mut validation = Validation::new(algorithm);
        validation.validate_nbf = true;
        Self { key, validation }
    }

    /// Creates a `Jwt` that accepts tokens that are signed with the shared secret `secret` (HS256).
    pub fn hs256(secret: &[u8]) -> Self {
        Self::new(DecodingKey::from_secret(secret), Algorithm::HS256)
    }

    /// Creates a `Jwt` that accepts tokens that are signed with an RSA key (RS256). `public_key` has the PEM format.
    pub fn rs256(public_key: &[u8]) -> Result<Self, BadKey> {
        let key = DecodingKey::from_rsa_pem(public_key).map_err(|error| BadKey(error.to_string()))?;
        Ok(Self::new(key, Algorithm::RS256))
    }

    /// Creates a `Jwt` that accepts tokens that are signed with a P-256 key (ES256). `public_key` has the PEM format.
    pub fn es256(public_key: &[u8]) -> Result<Self, BadKey> {
        let key = DecodingKey::from_ec_pem(public_key).map_err(|error| BadKey(error.to_string()))?;
        Ok(Self::new(key, Algorithm::ES256))
    }

    /// Creates a `Jwt` that accepts tokens that are signed with an Ed25519 key (`EdDSA`). `public_key` has the PEM
    /// format.
    pub fn eddsa(public_key: &[u8]) -> Result<Self, BadKey> {
        let key = DecodingKey::from_ed_pem(public_key).map_err(|error| BadKey(error.to_string()))?;
        Ok(Self::new(key, Algorithm::EdDSA))
    }

    /// Accepts only tokens from this issuer (`iss`).
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.validation.set_issuer(&[issuer.into()]);
        self.validation.required_spec_claims.insert("iss".to_owned());
        self
    }

    /// Accepts only tokens for this audience (`aud`). By default, the server refuses tokens with an audience.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.validation.set_audience(&[audience.into()]);
        self.validation.required_spec_claims.insert("aud".to_owned());
        self
    }
}

#[async_trait]
impl Auth for Jwt {
    async fn authenticate(&self, request: Credentials<'_>) -> Result<User, ApiError> {
        let Some(token) = request.token() else {
            return Err(ApiError::unauthenticated("the request has no token: send `Authorization: Bearer …`"));
        };
        let refused = |error| ApiError::unauthenticated(format!("invalid token: {error}"));
        let decoded = decode::<Map<String, Value>>(token, &self.key, &self.validation);
        let claims = decoded.map_err(|error| refused(error.to_string()))?.claims;
        user(claims).ok_or_else(|| refused("it has no `sub`".to_owned()))
    }
}

fn user(claims: Map<String, Value>) -> Option<User> {
    let identity = claims.get("sub")?.as_str().filter(|sub| !sub.is_empty())?.to_owned();
    let scope = claims.get("scope").and_then(Value::as_str).into_iter().flat_map(str::split_whitespace);
    let listed = claims.get("permissions").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let permissions: Vec<String> = scope.chain(listed).map(str::to_owned).collect();
    Some(User { identity, permissions, claims })
}
