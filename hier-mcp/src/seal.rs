//! Sealed data: the state that a client carries between the rounds of a call, and stored tokens. It cannot be read or
//! changed, and is valid only in its context. The state of a call is also valid only for a limited time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Generate, Nonce, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use serde::{Deserialize, Serialize};

use crate::error::McpError;

/// A key for encryption. An [`McpServer`](crate::McpServer) encrypts the state of open questions, and an
/// [`McpAuth`](crate::McpAuth) encrypts the tokens that it stores. All processes that serve the same threads or use the
/// same tokens need the same key.
#[derive(Clone)]
pub struct SealKey(XChaCha20Poly1305);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey")
    }
}

impl SealKey {
    /// Creates a key from these bytes. Keep the bytes secret, like a password.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(&bytes.into()))
    }

    /// Creates a random key, whose states only this process can open.
    pub(crate) fn random() -> Result<Self, McpError> {
        let key = chacha20poly1305::Key::try_generate();
        key.map(|key| Self(XChaCha20Poly1305::new(&key)))
            .map_err(|error| McpError::Serve(format!("cannot get random numbers from the operating system: {error}")))
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SealedState {
    pub(crate) thread: String,
    /// The ids of the open questions.
    pub(crate) questions: Vec<String>,
    /// The expiry as a Unix time, in seconds.
    pub(crate) until: u64,
}

impl SealKey {
    /// Seals the state of a call of this tool.
    pub(crate) fn seal(
        &self,
        tool: &str,
        thread: &str,
        questions: Vec<String>,
        lasts: Duration,
        now: SystemTime,
    ) -> Result<String, String> {
        let until = now.checked_add(lasts).and_then(|until| until.duration_since(UNIX_EPOCH).ok());
        let until = until.map_or(u64::MAX, |until| until.as_secs());
        let state = SealedState { thread: thread.to_owned(), questions, until };
        let plain = serde_json::to_vec(&state).map_err(|error| error.to_string())?;
        self.encrypt(tool, &plain)
    }

    /// Encrypts data that is valid only in this context.
    pub(crate) fn encrypt(&self, context: &str, plain: &[u8]) -> Result<String, String> {
        let nonce = Nonce::<XChaCha20Poly1305>::try_generate().map_err(|error| error.to_string())?;
        let sealed = self.0.encrypt(&nonce, Payload { msg: plain, aad: context.as_bytes() });
        let sealed = sealed.map_err(|error| error.to_string())?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// Decrypts data of this context. Returns `None` if it was encrypted with another key, in another context, or
    /// changed.
    pub(crate) fn decrypt(&self, context: &str, sealed: &str) -> Option<Vec<u8>> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(size_of::<Nonce<XChaCha20Poly1305>>())?;
        let nonce = Nonce::<XChaCha20Poly1305>::try_from(nonce).ok()?;
        self.0.decrypt(&nonce, Payload { msg: sealed, aad: context.as_bytes() }).ok()
    }

    /// Opens a state from [`seal`](Self::seal). Fails if it is invalid or has expired.
    pub(crate) fn open(&self, tool: &str, state: &str, now: SystemTime) -> Result<SealedState, &'static str> {
        let foreign = "`requestState` was not issued by this server for this tool";
        let plain = self.decrypt(tool, state).ok_or(foreign)?;
        let state: SealedState = serde_json::from_slice(&plain).map_err(|_| foreign)?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if state.until < now { Err("`requestState` has expired: call the tool again") } else { Ok(state) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn only_valid_states_are_opened() {
        let (key, now) = (SealKey::new([7; 32]), SystemTime::now());
        let state = key.seal("desk", "t-1", vec!["q".to_owned()], HOUR, now).unwrap();
        assert_eq!(key.open("desk", &state, now).unwrap().thread, "t-1");
        assert!(key.open("other", &state, now).is_err());
        assert!(SealKey::new([8; 32]).open("desk", &state, now).is_err());
        assert!(key.open("desk", &format!("{state}A"), now).is_err());
        assert!(key.open("desk", "", now).is_err());
        for at in 0..state.len() {
            let mut changed = state.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(key.open("desk", std::str::from_utf8(&changed).unwrap(), now).is_err(), "at {at}");
        }
        assert_eq!(
            key.open("desk", &state, now + 2 * HOUR).unwrap_err(),
            "`requestState` has expired: call the tool again"
        );
        assert_ne!(state, key.seal("desk", "t-1", vec!["q".to_owned()], HOUR, now).unwrap());
    }
}
