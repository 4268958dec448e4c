//! How bytes are stored: plain, compressed or encrypted.
//!
//! The last byte says which. What is encrypted is bound to its place (thread, namespace, checkpoint, channel, …), so that a
//! row that somebody moved elsewhere is refused; and a store with a key refuses what is not encrypted.

use std::fmt;

use hier_core::checkpoint::SaverError;
use uuid::Uuid;

const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;
const ENCRYPTED: u8 = 2;

/// What is shorter is not worth compressing.
#[cfg(feature = "compression")]
const WORTH_COMPRESSING: usize = 128;
/// LZ4 makes nothing smaller than this part of it. What claims more would only fill the memory.
#[cfg(feature = "compression")]
const MOST_COMPRESSED: usize = 256;

/// Where bytes are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// A checkpoint.
    Body { thread: &'a str, namespace: &'a str, id: Uuid },
    /// A channel's value, or what was added to it.
    Piece { thread: &'a str, namespace: &'a str, channel: &'a str, version: Uuid, base: Option<Uuid> },
    /// What a task wrote.
    Write {
        thread: &'a str,
        namespace: &'a str,
        checkpoint: Uuid,
        task: Uuid,
        slot: i32,
        path: &'a str,
        channel: &'a str,
    },
}

impl Place<'_> {
    fn thread(&self) -> &str {
        match self {
            Self::Body { thread, .. } | Self::Piece { thread, .. } | Self::Write { thread, .. } => thread,
        }
    }

    /// The place as bytes. No two places have the same: each text comes after its length.
    #[cfg(feature = "encryption")]
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        match *self {
            Self::Body { thread, namespace, id } => {
                bytes.push(b'b');
                text(&mut bytes, thread);
                text(&mut bytes, namespace);
                bytes.extend(id.as_bytes());
            }
            Self::Piece { thread, namespace, channel, version, base } => {
                bytes.push(b'p');
                text(&mut bytes, thread);
                text(&mut bytes, namespace);
                text(&mut bytes, channel);
                bytes.extend(version.as_bytes());
                bytes.extend(base.unwrap_or_default().as_bytes());
            }
            Self::Write { thread, namespace, checkpoint, task, slot, path, channel } => {
                bytes.push(b'w');
                text(&mut bytes, thread);
                text(&mut bytes, namespace);
                text(&mut bytes, path);
                text(&mut bytes, channel);
                bytes.extend(checkpoint.as_bytes());
                bytes.extend(task.as_bytes());
                bytes.extend(slot.to_le_bytes());
            }
        }
        bytes
    }

    fn damaged(&self, reason: impl fmt::Display) -> SaverError {
        let place = match self {
            Self::Body { namespace, id, .. } => format!("checkpoint `{id}` of namespace `{namespace}`"),
            Self::Piece { namespace, channel, version, .. } => {
                format!(
                    "the value of channel `{channel}` that checkpoint `{version}` of namespace `{namespace}` brought"
                )
            }
            Self::Write { namespace, checkpoint, task, slot, .. } => {
                format!("write {slot} of task `{task}` at checkpoint `{checkpoint}` of namespace `{namespace}`")
            }
        };
        SaverError::Damaged { thread: self.thread().to_owned(), reason: format!("{place} {reason}") }
    }
}

/// Puts bytes into the form in which they are stored, and back.
#[derive(Clone, Default)]
pub(crate) struct Vault {
    #[cfg(feature = "compression")]
    compress: bool,
    #[cfg(feature = "encryption")]
    cipher: Option<std::sync::Arc<aes_gcm::Aes256Gcm>>,
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
        use aes_gcm::KeyInit;
        self.cipher = Some(std::sync::Arc::new(aes_gcm::Aes256Gcm::new(key.bytes().into())));
    }

    /// The bytes as they are stored in this place.
    pub(crate) fn seal(&self, place: Place<'_>, bytes: Vec<u8>) -> Result<Vec<u8>, SaverError> {
        let bytes = self.pack(bytes);
        #[cfg(feature = "encryption")]
        if let Some(cipher) = &self.cipher {
            return encrypt(cipher, place, &bytes);
        }
        let _ = place;
        Ok(bytes)
    }

    /// The bytes that were stored in this place; [`SaverError::Damaged`] if these are not.
    pub(crate) fn open(&self, place: Place<'_>, stored: Vec<u8>) -> Result<Vec<u8>, SaverError> {
        #[cfg(feature = "encryption")]
        if let Some(cipher) = &self.cipher {
            return unpack(place, decrypt(cipher, place, stored)?);
        }
        unpack(place, stored)
    }

    #[cfg_attr(
        not(feature = "compression"),
        expect(clippy::unused_self, reason = "there is a choice with the feature")
    )]
    fn pack(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        #[cfg(feature = "compression")]
        if self.compress && bytes.len() >= WORTH_COMPRESSING {
            let mut packed = lz4_flex::block::compress_prepend_size(&bytes);
            if packed.len() < bytes.len() {
                packed.push(COMPRESSED);
                return packed;
            }
        }
        bytes.push(PLAIN);
        bytes
    }
}

fn unpack(place: Place<'_>, mut bytes: Vec<u8>) -> Result<Vec<u8>, SaverError> {
    match bytes.pop() {
        Some(PLAIN) => Ok(bytes),
        Some(COMPRESSED) => decompress(place, &bytes),
        Some(ENCRYPTED) => Err(place.damaged("is encrypted: open the store with its key")),
        Some(other) => Err(place.damaged(format!("is stored in a form ({other}) that this version does not know"))),
        None => Err(place.damaged("is empty")),
    }
}

#[cfg(feature = "compression")]
fn decompress(place: Place<'_>, bytes: &[u8]) -> Result<Vec<u8>, SaverError> {
    let (size, packed) = lz4_flex::block::uncompressed_size(bytes).map_err(|error| place.damaged(error))?;
    if size > packed.len().saturating_mul(MOST_COMPRESSED) {
        return Err(place.damaged("says that it is longer than it can be"));
    }
    lz4_flex::block::decompress(packed, size).map_err(|error| place.damaged(format!("cannot be decompressed: {error}")))
}

#[cfg(not(feature = "compression"))]
fn decompress(place: Place<'_>, _: &[u8]) -> Result<Vec<u8>, SaverError> {
    Err(place.damaged("is compressed: build `hier-checkpoint` with its feature `compression`"))
}

/// The nonce, what was encrypted, and the byte that says so.
#[cfg(feature = "encryption")]
fn encrypt(cipher: &aes_gcm::Aes256Gcm, place: Place<'_>, bytes: &[u8]) -> Result<Vec<u8>, SaverError> {
    use aes_gcm::aead::{Aead, Generate, Nonce, Payload};
    let nonce = Nonce::<aes_gcm::Aes256Gcm>::try_generate()
        .map_err(|error| SaverError::database("the system gives no random numbers", error))?;
    let sealed = cipher
        .encrypt(&nonce, Payload { msg: bytes, aad: &place.bytes() })
        .map_err(|_| SaverError::Invalid("a value is too long to be encrypted".to_owned()))?;
    Ok([nonce.as_slice(), &sealed, &[ENCRYPTED]].concat())
}

#[cfg(feature = "encryption")]
fn decrypt(cipher: &aes_gcm::Aes256Gcm, place: Place<'_>, mut stored: Vec<u8>) -> Result<Vec<u8>, SaverError> {
    use aes_gcm::aead::{Aead, Nonce, Payload};
    match stored.pop() {
        Some(ENCRYPTED) => {}
        _ => return Err(place.damaged("is not encrypted, though the store has a key")),
    }
    let Some((nonce, sealed)) = stored.split_at_checked(12) else {
        return Err(place.damaged("is too short to be encrypted"));
    };
    let nonce = Nonce::<aes_gcm::Aes256Gcm>::try_from(nonce).map_err(|_| place.damaged("has no nonce"))?;
    cipher
        .decrypt(&nonce, Payload { msg: sealed, aad: &place.bytes() })
        .map_err(|_| place.damaged("was changed, moved from another place, or encrypted with another key"))
}
