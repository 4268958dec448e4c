//! Encryption, bound to the place: XChaCha20-Poly1305. Rows of earlier versions are in AES-256-GCM.
//!
//! Nonces are random. Those of `XChaCha20` have 192 bits: however many rows a key encrypts, none comes twice. Those of AES-GCM
//! have 96, which bounds a key to 2³² rows, and so nothing is written with it any more.

use std::sync::Arc;

use aes_gcm::aead::{Aead, AeadCore, Generate, Nonce, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use chacha20poly1305::XChaCha20Poly1305;
use hier_core::checkpoint::SaverError;

use crate::Key;

/// Encrypts with one key, and decrypts with it and others.
#[derive(Clone)]
pub(crate) struct Cipher {
    writes: XChaCha20Poly1305,
    reads: Arc<[Pair]>,
}

/// Both algorithms with one key.
#[derive(Clone)]
struct Pair {
    present: XChaCha20Poly1305,
    earlier: Aes256Gcm,
}

impl Pair {
    fn of(key: &Key) -> Self {
        Self { present: XChaCha20Poly1305::new(key.bytes().into()), earlier: Aes256Gcm::new(key.bytes().into()) }
    }
}

impl Cipher {
    /// Encrypts with the first of these keys.
    pub(crate) fn new(writes: &Key, reads: &[Key]) -> Self {
        let first = Pair::of(writes);
        let present = first.present.clone();
        Self { writes: present, reads: std::iter::once(first).chain(reads.iter().map(Pair::of)).collect() }
    }

    /// A new nonce, and what was encrypted with it for this place.
    pub(crate) fn encrypt(&self, place: &[u8], bytes: &[u8]) -> Result<Vec<u8>, SaverError> {
        let nonce = Nonce::<XChaCha20Poly1305>::try_generate()
            .map_err(|error| SaverError::database("the system gives no random numbers", error))?;
        let sealed = self
            .writes
            .encrypt(&nonce, Payload { msg: bytes, aad: place })
            .map_err(|_| SaverError::Invalid("a value is too long to be encrypted".to_owned()))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// What was encrypted in this place; or what is wrong with it.
    pub(crate) fn decrypt(&self, place: &[u8], stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        self.first_that_opens(|pair| open(&pair.present, place, stored))
    }

    /// The same, of what an earlier version of hier has encrypted.
    pub(crate) fn decrypt_earlier(&self, place: &[u8], stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        self.first_that_opens(|pair| open(&pair.earlier, place, stored))
    }

    fn first_that_opens(&self, open: impl Fn(&Pair) -> Option<Vec<u8>>) -> Result<Vec<u8>, &'static str> {
        let opened = self.reads.iter().find_map(open);
        opened.ok_or("was changed, moved from another place or database, or encrypted with another key")
    }
}

fn open<C: Aead + AeadCore>(cipher: &C, place: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = stored.split_at_checked(size_of::<Nonce<C>>())?;
    let nonce = Nonce::<C>::try_from(nonce).ok()?;
    cipher.decrypt(&nonce, Payload { msg: sealed, aad: place }).ok()
}
