//! Encryption with XChaCha20-Poly1305, bound to the place of a value.
//!
//! Nonces are random. They have 192 bits, so that one key can encrypt any number of rows without a repeated nonce.

use std::sync::Arc;

use crate::checkpoint::SaverError;
use chacha20poly1305::aead::{Aead, Generate, Nonce, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};

use crate::Key;

#[derive(Clone)]
pub(super) struct Cipher {
    writes: XChaCha20Poly1305,
    reads: Arc<[XChaCha20Poly1305]>,
}

impl Cipher {
    pub(super) fn new(writes: &Key, reads: &[Key]) -> Self {
        let keyed = |key: &Key| XChaCha20Poly1305::new(key.bytes().into());
        let reads = std::iter::once(writes).chain(reads).map(keyed).collect();
        Self { writes: keyed(writes), reads }
    }

    /// Encrypts a value for this place. Returns the nonce and the ciphertext.
    pub(super) fn encrypt(&self, place: &[u8], bytes: &[u8]) -> Result<Vec<u8>, SaverError> {
        let nonce = Nonce::<XChaCha20Poly1305>::try_generate()
            .map_err(|error| SaverError::database("cannot get random numbers from the operating system", error))?;
        let sealed = self
            .writes
            .encrypt(&nonce, Payload { msg: bytes, aad: place })
            .map_err(|_| SaverError::Invalid("a value is too long to be encrypted: store a shorter one".to_owned()))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    pub(super) fn decrypt(&self, place: &[u8], stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        let opened = self.reads.iter().find_map(|cipher| open(cipher, place, stored));
        opened.ok_or("was changed, moved from another place or database, or encrypted with another key")
    }
}

fn open(cipher: &XChaCha20Poly1305, place: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = stored.split_at_checked(size_of::<Nonce<XChaCha20Poly1305>>())?;
    let nonce = Nonce::<XChaCha20Poly1305>::try_from(nonce).ok()?;
    cipher.decrypt(&nonce, Payload { msg: sealed, aad: place }).ok()
}
