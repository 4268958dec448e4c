//! The stored form of bytes: plain, compressed or encrypted.
//!
//! The last byte is the form. Encrypted bytes are bound to their database and storage location (thread, namespace,
//! checkpoint, channel, …). A row that was moved is rejected, and a store with a key rejects bytes that are not
//! encrypted. The codec does not detect an earlier version of a row in the same place, or missing rows.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::checkpoint::SaverError;
use uuid::Uuid;

#[cfg(feature = "encryption")]
use crate::backend::cipher::Cipher;
use crate::backend::storage_key::StorageKey;

const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
const ENCRYPTED: u8 = 2;

/// Encodes bytes for storage, and decodes stored bytes. Stored bytes are plain, compressed or encrypted.
#[derive(Clone, Default)]
pub struct ValueCodec {
    #[cfg(feature = "compression")]
    compress: bool,
    #[cfg(feature = "encryption")]
    key: Option<crate::Key>,
    #[cfg(feature = "encryption")]
    earlier_keys: Vec<crate::Key>,
    cipher: Option<Cipher>,
    /// The id of the database. Empty until its tables exist.
    database: Arc<OnceLock<Uuid>>,
}

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

impl fmt::Debug for ValueCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueCodec")
    }
}

impl ValueCodec {
    #[cfg(feature = "compression")]
    pub fn compress(&mut self) {
        self.compress = true;
    }

    #[cfg(feature = "encryption")]
    pub fn encrypt(&mut self, key: &crate::Key) {
        self.key = Some(key.clone());
        self.set_cipher();
    }

    #[cfg(feature = "encryption")]
    pub fn decrypt_with(&mut self, key: &crate::Key) {
        self.earlier_keys.push(key.clone());
        self.set_cipher();
    }

    #[cfg(feature = "encryption")]
    fn set_cipher(&mut self) {
        self.cipher = self.key.as_ref().map(|key| Cipher::new(key, &self.earlier_keys));
    }

    /// Returns a copy with the same keys but without the id of a database. Call [`set_database`](Self::set_database) on
    /// the copy before you use it.
    #[must_use]
    pub fn of_a_database(&self) -> Self {
        Self { database: Arc::default(), ..self.clone() }
    }

    pub fn encrypts(&self) -> bool {
        self.cipher.is_some()
    }

    /// Returns true if encryption needs the id of the database and the id is not yet known.
    pub fn lacks_database(&self) -> bool {
        self.cipher.is_some() && self.database.get().is_none()
    }

    /// Sets the id of the database. The codec binds encrypted bytes to this id. Only the first call has an effect.
    pub fn set_database(&self, id: Uuid) {
        self.database.get_or_init(|| id);
    }

    /// Returns the additional authenticated data: the id of the database and the storage location.
    fn bound_to(&self, place: StorageKey<'_>) -> Vec<u8> {
        let mut bytes = self.database.get().copied().unwrap_or_default().as_bytes().to_vec();
        bytes.extend(place.bytes());
        bytes
    }

    /// Encodes bytes for storage at the location `place`. A codec that encrypts needs the id of the database: if the
    /// caller has not called [`set_database`](Self::set_database), the method fails with [`SaverError::Invalid`].
    pub fn seal(&self, place: StorageKey<'_>, bytes: Vec<u8>) -> Result<Vec<u8>, SaverError> {
        let packed = self.pack(bytes);
        let Some(cipher) = &self.cipher else { return Ok(packed) };
        if self.lacks_database() {
            return Err(SaverError::Invalid(
                "a value cannot be encrypted before the id of its database is known".to_owned(),
            ));
        }
        let mut sealed = cipher.encrypt(&self.bound_to(place), &packed)?;
        sealed.push(ENCRYPTED);
        Ok(sealed)
    }

    /// Decodes bytes that were stored at the location `place`. Fails for damaged bytes. If the codec encrypts, also
    /// fails for bytes that are not encrypted, or that come from another location or database.
    pub fn open(&self, place: StorageKey<'_>, mut stored: Vec<u8>) -> Result<Vec<u8>, SaverError> {
        let Some(cipher) = &self.cipher else { return unpack(place, stored) };
        let packed = match stored.pop() {
            Some(ENCRYPTED) => cipher.decrypt(&self.bound_to(place), &stored),
            _ => Err("is not encrypted, but the store has a key: open a database that is not encrypted without a key"),
        };
        unpack(place, packed.map_err(|reason| place.damaged(reason))?)
    }

    #[cfg(feature = "compression")]
    fn pack(&self, bytes: Vec<u8>) -> Vec<u8> {
        let packed = if self.compress { crate::backend::compression::compress(&bytes) } else { None };
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

fn unpack(place: StorageKey<'_>, mut bytes: Vec<u8>) -> Result<Vec<u8>, SaverError> {
    match bytes.pop() {
        Some(PLAIN) => Ok(bytes),
        #[cfg(feature = "compression")]
        Some(COMPRESSED) => crate::backend::compression::decompress(place, &bytes),
        #[cfg(not(feature = "compression"))]
        Some(COMPRESSED) => Err(place.damaged("is compressed: build `hier-checkpoint` with its feature `compression`")),
        Some(ENCRYPTED) => Err(place.damaged("is encrypted: open the store with its key")),
        Some(other) => Err(place
            .damaged(format!("has the format {other}, which this version of hier does not know: run a newer version"))),
        None => Err(place.damaged("is empty")),
    }
}
