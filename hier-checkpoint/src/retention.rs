//! Which values nobody needs any more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hier_core::checkpoint::Checkpoint;
use uuid::Uuid;

/// A stored value of a namespace: its channel, its version, and the version that it adds to.
pub(crate) type PieceKey = (Arc<str>, Uuid, Option<Uuid>);

/// Those of a namespace's values that none of its checkpoints leads to.
pub(crate) fn unneeded<'a>(
    checkpoints: impl IntoIterator<Item = &'a Checkpoint>,
    pieces: &[PieceKey],
) -> Vec<(Arc<str>, Uuid)> {
    let bases: HashMap<(&str, Uuid), Option<Uuid>> =
        pieces.iter().map(|(channel, version, base)| ((&**channel, *version), *base)).collect();
    let mut needed: HashSet<(&str, Uuid)> = HashSet::new();
    for checkpoint in checkpoints {
        for (channel, version) in checkpoint.channels.iter().zip(checkpoint.versions.iter()) {
            let mut next = Some(*version).filter(|version| !version.is_nil());
            // What has been seen before has been followed to its end.
            while let Some(version) = next.filter(|version| needed.insert((channel, *version))) {
                next = bases.get(&(&**channel, version)).copied().flatten();
            }
        }
    }
    let all = pieces.iter().map(|(channel, version, _)| (channel.clone(), *version));
    all.filter(|(channel, version)| !needed.contains(&(&**channel, *version))).collect()
}
