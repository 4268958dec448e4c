//! When and how a conversation is made shorter.

use std::fmt;
use std::sync::Arc;

use crate::model::ChatModel;

/// Chooses a model of the context.
type Choose<C> = Arc<dyn for<'a> Fn(&'a C) -> &'a (dyn ChatModel + 'static) + Send + Sync>;

/// Keeps what an agent sends within its model's context: once the conversation fills a part of it, what is old is cleared, summed up,
/// clipped, and sent in that form from then on. The state keeps all of it; what is sent instead stands in the channel
/// `compaction`, a [`Compaction`](crate::Compaction).
///
/// How full the context is says the provider, with its last answer; only what came since is estimated. How large it is says
/// [`context_tokens`](Self::context_tokens), or the model ([`ChatModel::context_tokens`]). Where nobody knows, the conversation is made shorter
/// once the provider refuses it as too long, and asked again, once.
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
/// It is a layer of the agent: in `graph!` `layers: [Compact { at: 0.8 }]`. What stands before it in the list sees the whole conversation,
/// what stands behind it sees what is sent, and summaries go through that, too: a [`Fallback`](crate::layer::Fallback) behind it asks the other model
/// for them, a [`Redact`](crate::layer::Redact) behind it has nothing in them that it would not let through. Where a node asks a
/// model itself, there is no state in which to keep what is sent instead: it uses [`compacted`](crate::compacted).
#[derive(Clone)]
#[non_exhaustive]
pub struct Compact<C = ()> {
    /// How much of the context the conversation fills when it is made shorter: more than 0 and at most 1; 0.8 unless said.
    pub at: f64,
    /// How much of it the conversation fills then: less than `at`; half of it unless said.
    pub to: Option<f64>,
    /// How many tokens the context has: instructions, tools, conversation and answer. That of the model unless said.
    pub context_tokens: Option<u64>,
    /// The model that sums up; that of the agent unless said.
    pub(crate) by: Option<Choose<C>>,
}

impl<C> Default for Compact<C> {
    fn default() -> Self {
        Self { at: 0.8, to: None, context_tokens: None, by: None }
    }
}

impl<C> Compact<C> {
    /// Once the conversation fills four fifths of the context, it is brought to two fifths.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much of the context the conversation fills when it is made shorter: more than 0 and at most 1.
    #[must_use]
    pub fn at(self, at: f64) -> Self {
        Self { at, ..self }
    }

    /// How much of it the conversation fills then: more than 0 and less than `at`.
    #[must_use]
    pub fn to(self, to: f64) -> Self {
        Self { to: Some(to), ..self }
    }

    /// How many tokens the context has: instructions, tools, conversation and answer.
    #[must_use]
    pub fn context_tokens(self, tokens: impl Into<Option<u64>>) -> Self {
        Self { context_tokens: tokens.into(), ..self }
    }

    /// The model that sums up, chosen of the context: one that is cheap, for instance.
    #[must_use]
    pub fn by<M: ChatModel>(self, choose: impl for<'a> Fn(&'a C) -> &'a M + Send + Sync + 'static) -> Self {
        Self { by: Some(Arc::new(move |context| choose(context))), ..self }
    }

    /// What is wrong with it, if something is.
    pub(crate) fn mistake(&self) -> Option<String> {
        let is_part = |part: f64| part > 0.0 && part <= 1.0;
        if !is_part(self.at) {
            return Some(format!("`Compact` has `at: {}`: give it a part of the context, such as 0.8", self.at));
        }
        if self.to.is_some_and(|to| !is_part(to) || to >= self.at) {
            let to = self.to.unwrap_or_default();
            return Some(format!(
                "`Compact` has `to: {to}` and `at: {}`: `to` must be above 0 and below `at`",
                self.at
            ));
        }
        (self.context_tokens == Some(0)).then(|| "`Compact` has `context_tokens: 0`: give it the model's".to_owned())
    }

    /// How many tokens of this many make it full, and how many are left then.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a part of a count
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
