//! The settings of a compaction.

use std::fmt;
use std::sync::Arc;

use crate::model::{ChatModel, ChooseModel};

/// A layer that keeps an agent's requests within the context of its model. When the conversation fills a fraction of
/// the context ([`at`](Self::at)), the layer shortens old messages or replaces them with a summary. The state keeps all
/// messages. Its channel `compaction` holds the [`Compaction`](crate::Compaction), which describes the shortened
/// conversation.
///
/// ```
/// use hier_agents::AgentBuilder;
/// use hier_agents::prelude::*;
/// use hier_agents::Compact;
///
/// let agent = AgentBuilder::<BaseState>::new("support").layer(Compact::new().at(0.7).context_tokens(32_000));
/// # let _ = agent;
/// ```
///
/// In `graph!`, write `layers: [Compact { at: 0.8 }]`.
///
/// **Context size.** The layer uses [`context_tokens`](Self::context_tokens) if it is set, and otherwise the model's
/// own [`ChatModel::context_tokens`]. If neither is known, the layer waits until the provider rejects a conversation as
/// too long. It then compacts the conversation and sends it again. The size of the conversation is the number of tokens
/// that the provider reported with its last reply, plus an estimate for later messages.
///
/// **Always sent.** The layer always sends system messages, the first user message, messages to which the model has not
/// replied, and, in an `Agent`, the last user message. It never separates a call from its result. If a message contains
/// reasoning, the layer sends the message unchanged or not at all. If the system messages alone are too long, the
/// provider returns an error.
///
/// **Summaries.** The layer sends a summary as a user message, and does not stream the request for the summary to
/// clients. The request is a durable [step](hier_core::Run::step), so a run that resumes after a crash does not pay for
/// the summary again. The request passes through the layers after `Compact` in the list, so a
/// [`Fallback`](crate::layer::Fallback) after `Compact` also applies to summaries.
///
/// **Other layers.** Layers before `Compact` in the list see the whole conversation. Layers after it see the shortened
/// conversation.
///
/// In a custom node, use [`compacted`](crate::compacted) to send the shortened conversation.
#[derive(Clone)]
#[non_exhaustive]
#[must_use]
pub struct Compact<C = ()> {
    /// The fraction of the context at which the conversation is compacted, above 0 and at most 1. Defaults to 0.8.
    pub at: f64,
    /// The fraction of the context that the compacted conversation may fill, above 0 and less than `at`. With `None`,
    /// this is half of `at`.
    pub to: Option<f64>,
    /// The context size in tokens, for a whole request and its reply. With `None`, this is
    /// [`ChatModel::context_tokens`].
    pub context_tokens: Option<u64>,
    /// The model that writes summaries. Defaults to the agent's model.
    pub(crate) by: Option<ChooseModel<C>>,
}

impl<C> Default for Compact<C> {
    fn default() -> Self {
        Self { at: 0.8, to: None, context_tokens: None, by: None }
    }
}

impl<C> Compact<C> {
    /// Creates a layer with the defaults. When a conversation fills 80 % of the context, the layer reduces it to 40 %.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the fraction of the context at which the conversation is compacted, above 0 and at most 1. Defaults to 0.8.
    pub fn at(self, at: f64) -> Self {
        Self { at, ..self }
    }

    /// Sets the fraction of the context that the compacted conversation may fill, above 0 and less than `at`. Defaults
    /// to half of `at`.
    pub fn to(self, to: f64) -> Self {
        Self { to: Some(to), ..self }
    }

    /// Sets the context size in tokens, for a whole request and its reply. Defaults to [`ChatModel::context_tokens`].
    pub fn context_tokens(self, tokens: impl Into<Option<u64>>) -> Self {
        Self { context_tokens: tokens.into(), ..self }
    }

    /// Sets the model that writes the summaries, for example a cheap model. The function `choose` selects the model in
    /// the context. By default, the model that receives the conversation also writes the summaries.
    pub fn by<M: ChatModel>(self, choose: impl for<'a> Fn(&'a C) -> &'a M + Send + Sync + 'static) -> Self {
        Self { by: Some(Arc::new(move |context| choose(context))), ..self }
    }

    pub(crate) fn mistake(&self) -> Option<String> {
        let is_part = |part: f64| part > 0.0 && part <= 1.0;
        if !is_part(self.at) {
            return Some(format!("`Compact` has `at: {}`: give it a fraction of the context, such as 0.8", self.at));
        }
        if self.to.is_some_and(|to| !is_part(to) || to >= self.at) {
            let to = self.to.unwrap_or_default();
            return Some(format!(
                "`Compact` has `to: {to}` and `at: {}`: `to` must be above 0 and below `at`",
                self.at
            ));
        }
        (self.context_tokens == Some(0))
            .then(|| "`Compact` has `context_tokens: 0`: set it to the context size of the model in tokens".to_owned())
    }

    /// Returns the number of tokens at which a context of this size is compacted, and the number to compact it to.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a fraction of a count
    pub(crate) fn marks(&self, context: u64) -> (u64, u64) {
        let part = |part: f64| (context as f64 * part) as u64;
        (part(self.at), part(self.to.unwrap_or(self.at / 2.0)))
    }
}

impl<C> fmt::Debug for Compact<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compact")
            .field("at", &self.at)
            .field("to", &self.to)
            .field("context_tokens", &self.context_tokens)
            .field("by", &self.by.is_some())
            .finish()
    }
}
