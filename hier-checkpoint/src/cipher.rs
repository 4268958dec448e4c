//! Encryption: AES-256-GCM, bound to the place.

use std::sync::Arc;

use aes_gcm::aead::{Aead, Generate, Nonce, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use hier_core::checkpoint::SaverError;

use crate::Key;

const NONCE: usize = 12;

/// Encrypts and decrypts with one key.
#[derive(Clone)]
pub(crate) struct Cipher(Arc<Aes256Gcm>);

impl Cipher {
    pub(crate) fn new(key: &Key) -> Self {
        Self(Arc::new(Aes256Gcm::new(key.bytes().into())))
    }

    /// A new nonce, and what was encrypted with it for this place.
    pub(crate) fn encrypt(&self, place: &[u8], bytes: &[u8]) -> Result<Vec<u8>, SaverError> {
        let nonce = Nonce::<Aes256Gcm>::try_generate()
            .map_err(|error| SaverError::database("the system gives no random numbers", error))?;
        let sealed = self
            .0
            .encrypt(&nonce, Payload { msg: bytes, aad: place })
            .map_err(|_| SaverError::Invalid("a value is too long to be encrypted".to_owned()))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// What was encrypted in this place; or what is wrong with it.
    pub(crate) fn decrypt(&self, place: &[u8], stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        let Some((nonce, sealed)) = stored.split_at_checked(NONCE) else {
            return Err("is too short to be encrypted");
        };
        let nonce = Nonce::<Aes256Gcm>::try_from(nonce).map_err(|_| "has no nonce")?;
        self.0
            .decrypt(&nonce, Payload { msg: sealed, aad: place })
            .map_err(|_| "was changed, moved from another place, or encrypted with another key")
    }
}
