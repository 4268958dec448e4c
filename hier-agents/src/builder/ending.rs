//! The end of an agent: its report, its typed answer and its TODO list.

use std::sync::Arc;

use hier_spec::agent::AgentKind;

use super::AgentBuilder;
use crate::prompts;
use crate::react::{AnswerChannel, Todo, TypedAnswer};
use hier_core::state::{Contains, Values, WritableChannel, Writes};

impl<S: Values, C: Send + Sync + 'static> AgentBuilder<S, C> {
    /// Sets whether the model of a `ReactGraph` or `TodoGraph` ends the agent with the tool `report_to_supervisor`
    /// (true) or `finish_task` (false). Defaults to false for an agent that [`compile_as_root`](Self::compile_as_root)
    /// compiles, and otherwise to true. An `Agent` does not have this option, because its last reply is its report.
    pub fn reports_to_supervisor(mut self, reports: bool) -> Self {
        self.requires_kind("reports_to_supervisor", AgentKind::React);
        self.reports = Some(reports);
        self
    }

    /// Makes the agent also write its report to this channel, whose type is `String` or `Option<String>`.
    ///
    /// ```
    /// # use hier_agents::AgentBuilder;
    /// # use hier_agents::prelude::*;
    /// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// struct Filing {
    ///     #[state(flatten)]
    ///     base: BaseState,
    ///     artifact: Option<String>,
    /// }
    ///
    /// let stage = AgentBuilder::<Filing>::react("stage").report_into(&Filing::channels().artifact);
    /// # let _ = stage;
    /// ```
    pub fn report_into<K>(self, channel: &'static K) -> Self
    where
        K: WritableChannel + Sync,
        K::Value: From<String>,
        S: Contains<K::State>,
    {
        self.report_with(move |report| {
            [<S as Contains<K::State>>::lift(channel.write_of(report.into()))].into_iter().collect()
        })
    }

    /// Sets the channel for the typed answer of an `Agent`. The agent ends when its model gives a value of the
    /// channel's type. If this type is an `Option<T>`, the model gives a `T`. The agent's report is the value as JSON.
    /// If the value is a string, the report is the string itself, without quotes.
    ///
    /// If a value does not fit the type, the agent asks the model again, with a description of each fault. After
    /// [`attempts`](Self::attempts) unusable replies, the agent fails.
    ///
    /// ```
    /// # use hier_agents::{AgentBuilder, AgentEnd};
    /// # use hier_agents::prelude::*;
    /// # use hier_testkit::ScriptedModel;
    /// # use serde_json::json;
    /// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    /// struct Verdict {
    ///     accepted: bool,
    /// }
    ///
    /// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// struct Review {
    ///     #[state(flatten)]
    ///     base: BaseState,
    ///     verdict: Option<Verdict>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// let judge = AgentBuilder::<Review>::new("judge").answer(&Review::channels().verdict).compile()?;
    /// let model = ScriptedModel::new([Message::call("final_answer", json!({"accepted": true}))]);
    /// let out = judge.invoke(Message::user("Is it right?")).context(BaseContext::new(model)).await?;
    /// assert_eq!(out.ending(), Some(&AgentEnd::Answer));
    /// assert_eq!(out.state().verdict, Some(Verdict { accepted: true }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn answer<K: AnswerChannel>(mut self, channel: &'static K) -> Self
    where
        S: Contains<K::State>,
    {
        self.requires_kind("answer", AgentKind::Agent);
        let initial = self.initial.clone();
        self.agent.answer = Some(TypedAnswer::new(
            channel.channel_name(),
            |value| <S as Contains<K::State>>::lift(channel.write_of(value)),
            move || <S as Contains<K::State>>::lift(channel.write_as_in(initial().part())),
        ));
        self
    }

    pub(crate) fn report_with(mut self, write: impl Fn(String) -> Writes<S> + Send + Sync + 'static) -> Self {
        self.agent.report_into = Some(Arc::new(write));
        self
    }

    /// Sets the condition under which a `TodoGraph` may report, instead of the default condition. By default, the agent
    /// may report when its TODO list is complete and not empty. This method turns a `ReactGraph` into a `TodoGraph`.
    pub fn todo_check(mut self, check: impl Fn(&S) -> bool + Send + Sync + 'static) -> Self {
        self.requires_kind("todo_check", AgentKind::Todo);
        let refusal = self.agent.todo.take().map_or_else(|| prompts::DEFAULT_TODO.into(), |todo| todo.refusal);
        self.agent.todo = Some(Todo { check: Some(Arc::new(check)), refusal });
        self
    }

    /// Sets the message that the model of a `TodoGraph` receives if it reports before the [condition](Self::todo_check)
    /// is met. Defaults to a request to complete the open TODO items. This method turns a `ReactGraph` into a
    /// `TodoGraph`.
    pub fn todo_refusal(mut self, text: impl Into<Arc<str>>) -> Self {
        self.requires_kind("todo_refusal", AgentKind::Todo);
        let check = self.agent.todo.take().and_then(|todo| todo.check);
        self.agent.todo = Some(Todo { check, refusal: text.into() });
        self
    }

    /// Checks that the agent's kind has this option. An option of a `TodoGraph` turns a `ReactGraph` into a
    /// `TodoGraph`.
    pub(super) fn requires_kind(&mut self, option: &str, kind: AgentKind) {
        match (self.agent.kind, kind) {
            (AgentKind::React, AgentKind::Todo) => self.agent.kind = kind,
            (AgentKind::Agent, AgentKind::React | AgentKind::Todo) => {
                let kind = if kind == AgentKind::Todo { "todo" } else { "react" };
                self.mistakes.push(format!("an `Agent` has no option `{option}`, because it ends when its model replies \
                    without a call: use `AgentBuilder::{kind}`"));
            }
            (AgentKind::React | AgentKind::Todo, AgentKind::Agent) => self.mistakes.push(format!(
                "only an `Agent` has the option `{option}`, but this agent ends when it reports: use `AgentBuilder::new` or `report_into`"
            )),
            _ => {}
        }
    }
}
