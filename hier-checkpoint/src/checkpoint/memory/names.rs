//! How names are hashed: at one go, since they are looked up with each commit, and hashing a text piece by piece takes several times as
//! long.

use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The hashes of the maps whose keys are names.
pub(super) type NameHash = BuildHasherDefault<NameHasher>;

/// The hash of a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameHasher(u64);

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// What ends a text.
    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.0 ^= u64::from(byte);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
