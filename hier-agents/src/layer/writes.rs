use std::sync::Arc;

use hier_core::NodeError;
use hier_core::channel::ChannelSpec;
use hier_core::state::{ChannelWrite, Values, Writes};

/// Writes with the key of their layer. The key is `None` until the layer returns.
pub(crate) type LayerWrites<S> = Vec<(Option<Arc<str>>, <S as Values>::Write)>;

/// Marks the new writes with the key of their layer.
pub(super) fn sign_writes<S: Values>(writes: &mut LayerWrites<S>, key: &Arc<str>) {
    for (signed, _) in writes.iter_mut().filter(|(signed, _)| signed.is_none()) {
        *signed = Some(key.clone());
    }
}

/// Combines the writes of layers and of the node around them. Fails if two of them write the same channel without a
/// reducer. If one layer writes such a channel several times, because it handled several calls, its last write counts.
pub(crate) fn unite_writes<S: Values>(
    signed: LayerWrites<S>,
    mut own: Writes<S>,
    channels: &[ChannelSpec],
) -> Result<Writes<S>, NodeError> {
    if signed.is_empty() {
        return Ok(own);
    }
    let plain = |channel: usize| channels.get(channel).is_some_and(|spec| spec.kind.single_writer());
    for (place, (key, write)) in signed.iter().enumerate() {
        let channel = write.channel();
        let other = signed[..place].iter().find(|(other, before)| other != key && before.channel() == channel);
        let other = other.map(|(other, _)| format!("the layer `{}`", other.as_deref().unwrap_or_default()));
        let by_agent = own.iter().any(|write| write.channel() == channel).then(|| "the agent itself".to_owned());
        if let Some(other) = other.or(by_agent).filter(|_| plain(channel)) {
            return Err(NodeError::permanent(format!(
                "the layer `{}` and {other} both write `{}`, which has no reducer: give it one, or let one of them write",
                key.as_deref().unwrap_or_default(),
                write.name(),
            )));
        }
    }
    let written: Vec<usize> = signed.iter().map(|(_, write)| write.channel()).collect();
    for (place, (_, write)) in signed.into_iter().enumerate() {
        let is_replaced = plain(written[place]) && written[place + 1..].contains(&written[place]);
        if !is_replaced {
            own.push(write);
        }
    }
    Ok(own)
}
