//! How bytes are stored: plain, compressed or encrypted.
//!
//! The last byte says which. What is encrypted is bound to its place (thread, namespace, checkpoint, channel, …), so that a
//! row that somebody moved elsewhere is refused; and a store with a key refuses what is not encrypted.

use std::fmt;

use hier_core::checkpoint::SaverError;

#[cfg(feature = "encryption")]
use crate::cipher::Cipher;
use crate::place::Place;

const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
const ENCRYPTED: u8 = 2;

/// Puts bytes into the form in which they are stored, and back.
#[derive(Clone, Default)]
pub(crate) struct Vault {
    #[cfg(feature = "compression")]
    compress: bool,
    cipher: Option<Cipher>,
}

/// In a build without encryption there is none.
#[cfg(not(feature = "encryption"))]
#[derive(Clone)]
enum Cipher {}

#[cfg(not(feature = "encryption"))]
impl Cipher {
    fn encrypt(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, SaverError> {
        match *self {}
    }

    fn decrypt(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, &'static str> {
        match *self {}
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}

impl Vault {
    #[cfg(feature = "compression")]
    pub(crate) fn compress(&mut self) {
        self.compress = true;
    }

    #[cfg(feature = "encryption")]
    pub(crate) fn encrypt(&mut self, key: &crate::Key) {
        self.cipher = Some(Cipher::new(key));
    }

    /// The bytes as they are stored in this place.
    pub(crate) fn seal(&self, place: Place<'_>, bytes: Vec<u8>) -> Result<Vec<u8>, SaverError> {
        let packed = self.pack(bytes);
        let Some(cipher) = &self.cipher else { return Ok(packed) };
        let mut sealed = cipher.encrypt(&place.bytes(), &packed)?;
        sealed.push(ENCRYPTED);
        Ok(sealed)
    }

    /// The bytes that were stored in this place; [`SaverError::Damaged`] if these are not.
    pub(crate) fn open(&self, place: Place<'_>, mut stored: Vec<u8>) -> Result<Vec<u8>, SaverError> {
        let Some(cipher) = &self.cipher else { return unpack(place, stored) };
        match stored.pop() {
            Some(ENCRYPTED) => {
                let packed = cipher.decrypt(&place.bytes(), &stored).map_err(|reason| place.damaged(reason))?;
                unpack(place, packed)
            }
            _ => Err(place.damaged("is not encrypted, though the store has a key")),
        }
    }

    #[cfg(feature = "compression")]
    fn pack(&self, bytes: Vec<u8>) -> Vec<u8> {
        let packed = if self.compress { crate::compression::compress(&bytes) } else { None };
        packed.map_or_else(|| marked(bytes, PLAIN), |packed| marked(packed, COMPRESSED))
    }

    #[cfg(not(feature = "compression"))]
    #[expect(clippy::unused_self, reason = "it does with the feature")]
    fn pack(&self, bytes: Vec<u8>) -> Vec<u8> {
        marked(bytes, PLAIN)
    }
}

fn marked(mut bytes: Vec<u8>, mark: u8) -> Vec<u8> {
    bytes.push(mark);
    bytes
}

fn unpack(place: Place<'_>, mut bytes: Vec<u8>) -> Result<Vec<u8>, SaverError> {
    match bytes.pop() {
        Some(PLAIN) => Ok(bytes),
        #[cfg(feature = "compression")]
        Some(COMPRESSED) => crate::compression::decompress(place, &bytes),
        #[cfg(not(feature = "compression"))]
        Some(COMPRESSED) => Err(place.damaged("is compressed: build `hier-checkpoint` with its feature `compression`")),
        Some(ENCRYPTED) => Err(place.damaged("is encrypted: open the store with its key")),
        Some(other) => Err(place.damaged(format!("is stored in a form ({other}) that this version does not know"))),
        None => Err(place.damaged("is empty")),
    }
}
