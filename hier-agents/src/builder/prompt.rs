//! The prompts of an agent. None of them shows a secret channel.

use std::sync::Arc;

use hier_spec::agent::AgentKind;

use crate::builder::AgentBuilder;
use crate::react::{IntoPrompt, PromptSource};
use hier_core::state::Values;

impl<S: Values, C: Send + Sync + 'static> AgentBuilder<S, C> {
    /// Sets the system prompt: a string, or a function of the state that returns a string. The function does not see
    /// the values of secret channels. In the state that it receives, these channels have their initial values.
    ///
    /// An `Agent` sends the prompt in front of the conversation in each request, and does not store the prompt. A
    /// `ReactGraph` or `TodoGraph` adds the prompt to its conversation when a turn begins.
    pub fn system<M>(mut self, text: impl IntoPrompt<S, M>) -> Self {
        self.agent.system = self.without_secrets(text.into_prompt());
        self
    }

    /// Sets the user message that a `ReactGraph` or `TodoGraph` sends at the end of each request: a string, or a
    /// function of the state that returns a string. The function does not see the values of secret channels. In the
    /// state that it receives, these channels have their initial values. An `Agent` does not have this option.
    pub fn reasoning<M>(mut self, text: impl IntoPrompt<S, M>) -> Self {
        self.requires_kind("reasoning", AgentKind::React);
        self.agent.reasoning = self.without_secrets(text.into_prompt());
        self
    }

    /// Sets the function that creates the system prompt. The macro has checked the function.
    #[doc(hidden)]
    pub fn checked_system(mut self, make: fn(&S) -> String) -> Self {
        self.agent.system = PromptSource::Made(Arc::new(make));
        self
    }

    /// Sets the function that creates the user message at the end of each request. The macro has checked the function.
    #[doc(hidden)]
    pub fn checked_reasoning(mut self, make: fn(&S) -> String) -> Self {
        self.requires_kind("reasoning", AgentKind::React);
        self.agent.reasoning = PromptSource::Made(Arc::new(make));
        self
    }

    /// Lets the function of a prompt see the secret channels only at their initial values.
    fn without_secrets(&self, source: PromptSource<S>) -> PromptSource<S> {
        let secrets = self.channels.iter().enumerate().filter(|(_, spec)| spec.secret);
        let secrets: Vec<usize> = secrets.map(|(channel, _)| channel).collect();
        match source {
            PromptSource::Made(make) if !secrets.is_empty() => PromptSource::Made(Arc::new(move |state: &S| {
                let mut state = state.clone();
                for channel in &*secrets {
                    state.clear(*channel);
                }
                make(&state)
            })),
            source => source,
        }
    }
}
