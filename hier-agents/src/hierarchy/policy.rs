use std::borrow::Cow;

/// A policy that decides which values a subagent receives from its supervisor's state, and which values the subagent
/// returns. Without a policy, the supervisor and the subagent share one state.
///
/// A subagent with a policy starts with a copy of the supervisor's state, without the values that the policy clears.
/// When the subagent ends, the supervisor receives the report, the channels `progress` and `is_cancelled`, and the
/// channels in `merge_fields`. The supervisor also receives the counts of layers and the trust labels, but no other
/// values.
///
/// In `graph!`, write the policy where the subagent is declared (`policy: Policy { … }`), or where the supervisor lists
/// the subagent (`subagents: [Worker { … }]`). If both set an option, the option in the supervisor's list takes
/// precedence.
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
    pub(super) clear_messages: Option<bool>,
    pub(super) preserve_chat_with_operator: Option<bool>,
    pub(super) reset_iteration: Option<bool>,
    pub(super) max_iterations: Option<u32>,
    pub(super) background: Option<bool>,
    pub(super) detached: Option<bool>,
    pub(super) merge_fields: Option<Vec<Cow<'static, str>>>,
    pub(super) discard_fields: Option<Vec<Cow<'static, str>>>,
}

impl SubagentPolicy {
    /// Creates the default policy. The subagent starts with an empty conversation, and with `iteration_number` at 0. It
    /// returns its report, `progress` and `is_cancelled`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the subagent starts with an empty conversation. Defaults to true.
    pub fn clear_messages(mut self, clear: bool) -> Self {
        self.clear_messages = Some(clear);
        self
    }

    /// Sets whether the subagent receives the conversation with the operator. Defaults to true.
    pub fn preserve_chat_with_operator(mut self, preserve: bool) -> Self {
        self.preserve_chat_with_operator = Some(preserve);
        self
    }

    /// Sets whether the subagent's channel `iteration_number` starts at 0. If false, the channel starts with the
    /// supervisor's value. Agents set their own channel to 0 in both cases. Defaults to true.
    pub fn reset_iteration(mut self, reset: bool) -> Self {
        self.reset_iteration = Some(reset);
        self
    }

    /// Limits the number of model requests of the subagent. The limit must be at least 1. The smallest of three limits
    /// applies: this limit, the subagent's own limit, and the argument `task_iterations` of the call.
    pub fn max_iterations(mut self, iterations: u32) -> Self {
        self.max_iterations = Some(iterations);
        self
    }

    /// Sets whether the subagent runs in the background, on its own thread. Defaults to false.
    ///
    /// A call of a background subagent returns a handle at once. With the handle, the supervisor's model can check the
    /// subagent, send it messages, wait for it or cancel it. Only the report returns to the supervisor, so
    /// `merge_fields` and `discard_fields` must not be set.
    ///
    /// When the supervisor's turn ends, hier cancels the background subagents that are running. If the supervisor's run
    /// stops earlier, for example with a question or a crash, the subagents stop too. The next run of the supervisor's
    /// thread then continues the subagents.
    pub fn background(mut self, background: bool) -> Self {
        self.background = Some(background);
        self
    }

    /// Sets whether the subagent runs in the background and continues when its supervisor's turn ends. Defaults to
    /// false.
    ///
    /// A later turn of the supervisor's thread collects the report. Between the turns, a worker or a call of
    /// [`CompiledGraph::continue_detached`](hier_core::graph::CompiledGraph::continue_detached) continues the subagent.
    /// If a superstep of the subagent is running when the turn ends, this superstep starts again when the subagent
    /// continues.
    ///
    /// The subagent fails if the process that runs it dies three times in the same superstep. The option `max_attempts`
    /// of a worker changes this number. To count these deaths, hier stores each superstep of a detached subagent before
    /// the next superstep begins, whatever the [`Durability`](hier_core::Durability) of the supervisor's run.
    ///
    /// Without a checkpointer, or if the supervisor is not the graph that was invoked, no later turn can collect the
    /// report. hier then cancels the subagent when its supervisor's turn ends.
    pub fn detached(mut self, detached: bool) -> Self {
        self.detached = Some(detached);
        self
    }

    /// Sets the channels that the supervisor receives when the subagent ends. From a channel with a reducer, the
    /// supervisor receives the subagent's writes. From a channel without a reducer, it receives the last value.
    pub fn merge_fields<T: Into<Cow<'static, str>>>(mut self, fields: impl IntoIterator<Item = T>) -> Self {
        self.merge_fields = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the channels that the supervisor does not receive. Use this method for channels that the supervisor would
    /// receive by default, such as `progress` and `current_agent_report`.
    pub fn discard_fields<T: Into<Cow<'static, str>>>(mut self, fields: impl IntoIterator<Item = T>) -> Self {
        self.discard_fields = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Combines two policies. If both set an option, this policy takes precedence over `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            clear_messages: self.clear_messages.or(other.clear_messages),
            preserve_chat_with_operator: self.preserve_chat_with_operator.or(other.preserve_chat_with_operator),
            reset_iteration: self.reset_iteration.or(other.reset_iteration),
            max_iterations: self.max_iterations.or(other.max_iterations),
            background: self.background.or(other.background),
            detached: self.detached.or(other.detached),
            merge_fields: self.merge_fields.or(other.merge_fields),
            discard_fields: self.discard_fields.or(other.discard_fields),
        }
    }

    /// Returns true if the subagent starts with an empty conversation.
    pub fn clears_messages(&self) -> bool {
        self.clear_messages.unwrap_or(true)
    }

    /// Returns true if the subagent receives the conversation with the operator.
    pub fn preserves_chat_with_operator(&self) -> bool {
        self.preserve_chat_with_operator.unwrap_or(true)
    }

    /// Returns true if the subagent's channel `iteration_number` starts at 0. See
    /// [`reset_iteration`](Self::reset_iteration).
    pub fn resets_iteration(&self) -> bool {
        self.reset_iteration.unwrap_or(true)
    }

    /// Returns the limit of the subagent's model requests, or `None` if the policy sets no limit.
    pub fn iterations(&self) -> Option<u32> {
        self.max_iterations
    }

    /// Returns true if the subagent runs in the background.
    pub fn is_background(&self) -> bool {
        self.background.unwrap_or(self.is_detached())
    }

    /// Returns true if the subagent continues when its supervisor's turn ends.
    pub fn is_detached(&self) -> bool {
        self.detached.unwrap_or(false)
    }

    /// Returns the channels that [`merge_fields`](Self::merge_fields) has set.
    pub fn merged(&self) -> impl Iterator<Item = &str> {
        self.merge_fields.iter().flatten().map(|field| &**field)
    }

    /// Returns the channels that [`discard_fields`](Self::discard_fields) has set.
    pub fn discarded(&self) -> impl Iterator<Item = &str> {
        self.discard_fields.iter().flatten().map(|field| &**field)
    }

    /// Returns the options with their effective values, as text.
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![
            ("clear_messages", self.clears_messages().to_string()),
            ("preserve_chat_with_operator", self.preserves_chat_with_operator().to_string()),
            ("reset_iteration", self.resets_iteration().to_string()),
        ];
        options.extend(self.iterations().map(|iterations| ("max_iterations", iterations.to_string())));
        options.extend(self.is_background().then(|| ("background", true.to_string())));
        options.extend(self.is_detached().then(|| ("detached", true.to_string())));
        let list = |fields: Vec<&str>| {
            let mut fields = fields;
            fields.sort_unstable();
            fields.join(",")
        };
        let fields = [("merge_fields", self.merged().collect()), ("discard_fields", self.discarded().collect())];
        options
            .extend(fields.map(|(option, fields)| (option, list(fields))).into_iter().filter(|(_, it)| !it.is_empty()));
        options
    }

    /// Checks the policy against the channels of the supervisor and the subagent.
    pub(crate) fn mistakes(&self, outer: &[&str], inner: &[&str]) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.max_iterations == Some(0) {
            mistakes.push(
                "`max_iterations` of the policy is 0, so the subagent could not ask its model: set it to at least 1"
                    .to_owned(),
            );
        }
        for (option, fields) in [("merge_fields", &self.merge_fields), ("discard_fields", &self.discard_fields)] {
            let fields = fields.as_deref().unwrap_or_default();
            for (place, field) in fields.iter().enumerate() {
                if fields[..place].contains(field) {
                    mistakes.push(format!("`{option}` names `{field}` twice: remove one"));
                } else if field == hier_spec::agent::STACK {
                    mistakes.push(format!("`{option}` names `{field}`, which only the engine writes: remove it"));
                } else if let Some((whose, known)) =
                    [("supervisor", outer), ("subagent", inner)].iter().find(|(_, known)| !known.contains(&&**field))
                {
                    let tail = hier_spec::did_you_mean(field, known.iter().copied());
                    mistakes.push(format!(
                        "`{option}` names `{field}`, which is not a channel of the {whose}'s state{tail}"
                    ));
                }
            }
        }
        for (option, fields) in [("merge_fields", &self.merge_fields), ("discard_fields", &self.discard_fields)] {
            if self.is_background() && fields.as_ref().is_some_and(|fields| !fields.is_empty()) {
                mistakes.push(format!(
                    "`{option}` does not go with `background`: only the report of a background subagent returns; remove one"
                ));
            }
        }
        if self.is_detached() && !self.is_background() {
            mistakes.push("a detached subagent runs in the background: remove `background(false)`".to_owned());
        }
        let both = self.merged().filter(|field| self.discarded().any(|other| other == *field));
        mistakes.extend(both.map(|field| format!("`{field}` is both merged and discarded: remove one")));
        mistakes
    }
}
