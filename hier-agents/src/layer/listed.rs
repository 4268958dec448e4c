//! The layers of an agent, and their writes.

use std::fmt;
use std::sync::Arc;

use super::Layer;
use super::call::Signed;
use crate::state::base::BaseState;
use hier_core::NodeError;
use hier_core::channel::ChannelSpec;
use hier_core::state::{ChannelWrite, Values, Writes};

/// A layer at its position in the list of an agent.
pub(crate) struct Listed<S, C> {
    /// The agent's name, the position and the layer's name: equal in every process.
    pub(super) key: Arc<str>,
    pub(super) layer: Arc<dyn Layer<S, C>>,
}

impl<S, C> Clone for Listed<S, C> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), layer: self.layer.clone() }
    }
}

impl<S, C> fmt::Debug for Listed<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<S: Values, C: 'static> Listed<S, C> {
    pub(crate) fn new(agent: &str, place: usize, layer: Arc<dyn Layer<S, C>>) -> Self {
        Self { key: format!("{agent}/{place}:{}", layer.name()).into(), layer }
    }

    /// Returns the form of the layer that the agents below inherit.
    pub(crate) fn inherited(&self) -> Option<Listed<BaseState, C>> {
        Some(Listed { key: self.key.clone(), layer: self.layer.inherited()? })
    }

    /// Returns the layer's name for drawings.
    pub(crate) fn name(&self) -> String {
        let name = self.layer.name();
        if self.layer.inherited().is_some() { format!("Inherited({name})") } else { name.into_owned() }
    }
}

/// Finds two layers of a list that would both compact the conversations of the same agents.
pub(crate) fn mistake<S: Values, C: 'static>(layers: &[Listed<S, C>]) -> Option<String> {
    let compacting = |are_inherited: bool| {
        layers
            .iter()
            .filter(move |listed| listed.layer.compacts() && listed.layer.inherited().is_some() == are_inherited)
    };
    let (first, second) = [false, true].into_iter().find_map(|are_inherited| {
        let mut found = compacting(are_inherited).map(Listed::name);
        found.next().zip(found.next())
    })?;
    Some(format!("the layers `{first}` and `{second}` both compact the conversation: keep one of them"))
}

/// Combines the writes of layers and of the node around them, unless a channel without a reducer is written twice.
pub(crate) fn united<S: Values>(
    signed: Signed<S>,
    own: Writes<S>,
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
    Ok(own.into_iter().chain(signed.into_iter().map(|(_, write)| write)).collect())
}
