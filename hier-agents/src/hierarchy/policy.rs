//! What a subagent is given of its supervisor's state, and what it gives back.

use std::borrow::Cow;

/// What a subagent is given of its supervisor's state, and what it gives back. Without a policy the two share one state.
///
/// A subagent with a policy starts with a copy of its supervisor's state, less what the policy clears. When it ends, the
/// supervisor's state is as it was, with the subagent's report, its `progress` and the fields of `merge_fields`.
///
/// In `graph!` it stands with the agent, `policy: Policy { … }`, or where the agent is attached, `Worker { … }`, which
/// replaces it field by field; there the compiler checks the fields.
///
/// ```
/// use hier_agents::SubagentPolicy;
///
/// let policy = SubagentPolicy::new().merge_fields(["artifact"]).max_iterations(8);
/// assert!(policy.clears_messages());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a policy does nothing until an agent is attached with it"]
pub struct SubagentPolicy {
    clear_messages: Option<bool>,
    preserve_chat_with_operator: Option<bool>,
    reset_iteration: Option<bool>,
    max_iterations: Option<u32>,
    merge_fields: Option<Vec<Field>>,
    discard_fields: Option<Vec<Field>>,
}

/// The name of a channel.
type Field = Cow<'static, str>;

impl SubagentPolicy {
    /// The default policy: the subagent starts with an empty conversation and an iteration number of 0, and gives back
    /// its report only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the subagent starts with an empty conversation. It does by default.
    pub fn clear_messages(mut self, clear: bool) -> Self {
        self.clear_messages = Some(clear);
        self
    }

    /// Whether the subagent sees what was said to the operator so far. It does by default.
    pub fn preserve_chat_with_operator(mut self, preserve: bool) -> Self {
        self.preserve_chat_with_operator = Some(preserve);
        self
    }

    /// Whether the subagent's iterations are counted from 0. They are by default.
    pub fn reset_iteration(mut self, reset: bool) -> Self {
        self.reset_iteration = Some(reset);
        self
    }

    /// How often the subagent may ask its model: a cap on its own number and on that of its task. At least 1.
    pub fn max_iterations(mut self, iterations: u32) -> Self {
        self.max_iterations = Some(iterations);
        self
    }

    /// The channels that the supervisor takes over: of a plain one the subagent's last value, of one with a reducer what
    /// the subagent wrote, merged by it.
    pub fn merge_fields<T: Into<Cow<'static, str>>>(mut self, fields: impl IntoIterator<Item = T>) -> Self {
        self.merge_fields = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// The channels of which the supervisor takes over nothing, not even where it does by default: of `progress` and
    /// `current_agent_report`.
    pub fn discard_fields<T: Into<Cow<'static, str>>>(mut self, fields: impl IntoIterator<Item = T>) -> Self {
        self.discard_fields = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// This policy, with what it does not say taken from another.
    pub fn or(self, other: Self) -> Self {
        Self {
            clear_messages: self.clear_messages.or(other.clear_messages),
            preserve_chat_with_operator: self.preserve_chat_with_operator.or(other.preserve_chat_with_operator),
            reset_iteration: self.reset_iteration.or(other.reset_iteration),
            max_iterations: self.max_iterations.or(other.max_iterations),
            merge_fields: self.merge_fields.or(other.merge_fields),
            discard_fields: self.discard_fields.or(other.discard_fields),
        }
    }

    /// Whether the subagent starts with an empty conversation.
    pub fn clears_messages(&self) -> bool {
        self.clear_messages.unwrap_or(true)
    }

    /// Whether the subagent sees what was said to the operator so far.
    pub fn preserves_chat_with_operator(&self) -> bool {
        self.preserve_chat_with_operator.unwrap_or(true)
    }

    /// Whether the subagent's iterations are counted from 0.
    pub fn resets_iteration(&self) -> bool {
        self.reset_iteration.unwrap_or(true)
    }

    /// The cap on the subagent's iterations.
    pub fn iterations(&self) -> Option<u32> {
        self.max_iterations
    }

    /// The channels that the supervisor takes over.
    pub fn merged(&self) -> impl Iterator<Item = &str> {
        self.merge_fields.iter().flatten().map(|field| &**field)
    }

    /// The channels of which it takes over nothing.
    pub fn discarded(&self) -> impl Iterator<Item = &str> {
        self.discard_fields.iter().flatten().map(|field| &**field)
    }

    /// What is wrong with the policy between these two sets of channels, the supervisor's and the subagent's.
    pub(crate) fn mistakes(&self, outer: &[&str], inner: &[&str]) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.max_iterations == Some(0) {
            mistakes
                .push("a policy with `max_iterations` 0 lets the subagent do nothing: give it at least 1".to_owned());
        }
        for (option, fields) in [("merge_fields", &self.merge_fields), ("discard_fields", &self.discard_fields)] {
            let fields = fields.as_deref().unwrap_or_default();
            for (place, field) in fields.iter().enumerate() {
                if fields[..place].contains(field) {
                    mistakes.push(format!("`{option}` names `{field}` twice: remove one"));
                } else if field == hier_spec::agent::STACK {
                    mistakes.push(format!("`{option}` names `{field}`, which is the hierarchy's own: remove it"));
                } else if let Some((whose, known)) =
                    [("supervisor", outer), ("subagent", inner)].iter().find(|(_, known)| !known.contains(&&**field))
                {
                    let tail = hier_spec::did_you_mean(field, known.iter().copied());
                    mistakes
                        .push(format!("`{option}` names `{field}`, which is no channel of the {whose}'s state{tail}"));
                }
            }
        }
        let both = self.merged().filter(|field| self.discarded().any(|other| other == *field));
        mistakes.extend(both.map(|field| format!("`{field}` is both merged and discarded: remove one")));
        mistakes
    }
}
