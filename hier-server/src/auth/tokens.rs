//! Bearer tokens from a fixed list.

use std::fmt;

use async_trait::async_trait;
use subtle::ConstantTimeEq;

use super::{Auth, Credentials, User};
use crate::error::ApiError;

/// An [`Auth`] that identifies users by a fixed list of tokens. Clients send their token in the header `Authorization:
/// Bearer …` or `x-api-key`.
///
/// ```
/// use hier_server::auth::{Tokens, User};
///
/// let tokens = Tokens::new([("s3cret-of-alice", User::new("alice")), ("s3cret-of-bob", User::new("bob"))]);
/// # let _ = tokens;
/// ```
pub struct Tokens(Vec<(String, User)>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users: Vec<&str> = self.0.iter().map(|(_, user)| user.identity.as_str()).collect();
        f.debug_tuple("Tokens").field(&users).finish()
    }
}

impl Tokens {
    /// Creates the list from pairs of a token and its user. Ignores empty tokens.
    pub fn new<T: Into<String>>(tokens: impl IntoIterator<Item = (T, User)>) -> Self {
        let tokens = tokens.into_iter().map(|(token, user)| (token.into(), user));
        Self(tokens.filter(|(token, _)| !token.is_empty()).collect())
    }
}

#[async_trait]
impl Auth for Tokens {
    async fn authenticate(&self, request: Credentials<'_>) -> Result<User, ApiError> {
        let Some(given) = request.token() else {
            return Err(ApiError::unauthenticated("the request has no token: send `Authorization: Bearer …`"));
        };
        let mut found = None;
        // All tokens are compared, each in constant time, so that the time reveals nothing about them.
        for (token, user) in &self.0 {
            if bool::from(token.as_bytes().ct_eq(given.as_bytes())) {
                found = Some(user);
            }
        }
        found.cloned().ok_or_else(|| ApiError::unauthenticated("unknown token"))
    }
}
