use hier_spec::flow::ChannelSet;

use super::{CacheKey, InputKey, Task};
use crate::checkpoint::{CodecError, codec};
use crate::error::NodeError;
use crate::state::{Reads, Stored, Values};

impl CacheKey {
    pub(crate) fn of_inputs<S: Values, C>(task: &Task<S, C>, reads: &[Reads]) -> Result<Self, NodeError> {
        let takes_sent = reads.iter().any(|reads| matches!(reads, Reads::Input | Reads::Sent));
        let sent = task.arg.as_ref().filter(|_| takes_sent);
        let sent = sent.map(|arg| codec::hash_encoded(&arg.encode()?)).transpose()?;
        let input = codec::hash(&(task.was_sent(), sent, state_hashes(task, reads)?))?;
        Ok(Self { node: task.run.key.node, input })
    }

    /// The key of a task, from the result of the node's `cache_key` function.
    pub(crate) fn of_function<S: Values, C>(task: &Task<S, C>, InputKey(input): InputKey) -> Self {
        Self { node: task.run.key.node, input }
    }
}

/// Hashes each channel that a node reads. The hash of a channel without a value is `None`.
fn state_hashes<S: Values, C>(task: &Task<S, C>, reads: &[Reads]) -> Result<Vec<Option<u128>>, CodecError> {
    let (mut all, mut read) = (false, ChannelSet::EMPTY);
    for reads in reads {
        match reads {
            Reads::Input => all |= !task.was_sent(),
            Reads::State => all = true,
            Reads::Channels(channels) => read = read.union(*channels),
            Reads::Sent | Reads::Nothing => {}
        }
    }
    let mut hashes = Vec::new();
    for channel in (0..task.graph.channels.len()).filter(|channel| all || read.contains(*channel)) {
        hashes.push(task.state().stored(channel).map(hash).transpose()?);
    }
    Ok(hashes)
}

fn hash(value: &dyn Stored) -> Result<u128, CodecError> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes)?;
    codec::hash_encoded(&bytes)
}
