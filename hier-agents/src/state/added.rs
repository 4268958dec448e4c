use hier_checkpoint::message::Messages;
use hier_core::NodeError;
use hier_core::checkpoint::codec;
use hier_core::state::ChannelWrite;

/// Returns the messages that a write adds to this channel, or `None` for other writes.
pub(crate) fn added_messages(write: &impl ChannelWrite, channel: &str) -> Result<Option<Messages>, NodeError> {
    if write.name() != channel || write.is_overwrite() {
        return Ok(None);
    }
    let Some(written) = write.stored() else { return Ok(None) };
    let mut bytes = Vec::new();
    written.encode(&mut bytes)?;
    Ok(Some(codec::decode(&bytes)?))
}
