//! A session, which runs a graph in a test.

mod check;
mod clock;
mod operator;
mod record;
mod trace;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_agents::Message;
use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_core::graph::{Command, CompiledGraph, GraphInput, GraphOutput};
use hier_core::state::Values;
use hier_core::{Config, Interrupted, Outcome, Question, RunError};
use serde_json::Value;
use uuid::Uuid;

pub use clock::Clock;
pub use operator::FakeOperator;
use record::Recorder;
pub use trace::{Trace, TracedAnswer, TracedCall, TracedTask};

/// The number of resumptions after which a session stops resuming a run.
const ROUNDS: usize = 1_000;

/// Runs a graph in a test. A session passes inputs to the graph, answers its questions, moves the clock, and returns
/// the record of each run.
///
/// All runs use the same thread, so a second [`run`](Self::run) continues the conversation. The session stores the
/// thread in memory, or in the saver of [`saver`](Self::saver).
///
/// ```
/// use hier_agents::prelude::*;
/// use hier_testkit::{FakeOperator, ScriptedModel, Session};
/// use serde_json::json;
///
/// graph! {
///     /// Answers customers.
///     Support<BaseState> = Agent { tools: [refund] }
/// }
///
/// /// Pays an order back.
/// #[tool(needs_approval)]
/// async fn refund(order: u32) -> String {
///     format!("order {order} is paid back")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let model = ScriptedModel::new([
///     Message::call("refund", json!({ "order": 17 })),
///     Message::assistant("You have your money back."),
/// ]);
/// let mut session = Session::new(&Support::compile(), move || BaseContext::new(model.clone()))
///     .operator(FakeOperator::new().approve("refund"));
///
/// let run = session.run(Message::user("Order 17 is broken.")).await;
/// run.assert_calls(["refund"]).assert_called("refund", &json!({ "order": 17 })).assert_model_calls(..=2);
/// assert_eq!(run.calls()[0].result.as_deref(), Some("order 17 is paid back"));
/// assert_eq!(run.assert_finished().messages.last().map(Message::text).as_deref(), Some("You have your money back."));
/// # }
/// ```
#[must_use]
pub struct Session<S: Values, C, I, O> {
    graph: CompiledGraph<S, C, I, O>,
    context: Arc<dyn Fn() -> C + Send + Sync>,
    config: Config,
    operator: FakeOperator,
    clock: Option<Clock>,
    /// The longest wait that the session skips.
    max_wait: Option<Duration>,
    /// The checkpoint at which the next run starts, if it is not the latest.
    from: Option<Uuid>,
}

impl<S: Values, C, I, O> fmt::Debug for Session<S, C, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graph, config, operator, clock, max_wait, .. } = self;
        let mut shown = f.debug_struct("Session");
        shown.field("graph", graph).field("thread", &config.thread_id()).field("operator", operator);
        shown.field("clock", clock).field("patience", max_wait).finish_non_exhaustive()
    }
}

impl<S, C, I, O> Session<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S> + Unpin,
{
    /// Creates a session for this graph. The session calls `context` for each run to create the context.
    pub fn new(graph: &CompiledGraph<S, C, I, O>, context: impl Fn() -> C + Send + Sync + 'static) -> Self {
        Self {
            graph: graph.clone().checkpointer(MemorySaver::new()),
            context: Arc::new(context),
            config: Config::new().thread("test"),
            operator: FakeOperator::new(),
            clock: None,
            max_wait: None,
            from: None,
        }
    }

    /// Sets the saver. Defaults to a new [`MemorySaver`].
    pub fn saver(mut self, saver: impl Checkpointer) -> Self {
        self.graph = self.graph.checkpointer(saver);
        self
    }

    /// Sets the options of the runs, such as limits, durability and breakpoints. The configuration must also contain
    /// the id of a thread, because it replaces the default configuration with the thread `test`.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the operator, who answers the questions that runs ask. By default, a run ends at its first question.
    pub fn operator(mut self, operator: FakeOperator) -> Self {
        self.operator = operator;
        self
    }

    /// Sets the clock for timers and deadlines. A run that sleeps then ends immediately as interrupted. To continue the
    /// run, move the clock past the end of the sleep and call `run(())`.
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Skips waits of up to this duration. When a run waits, the session moves the clock to the end of the wait and
    /// continues the run. If the session has no clock, this method creates one.
    pub fn let_time_pass(self, at_most: Duration) -> Self {
        let clock = self.clock.clone().unwrap_or_default();
        Self { max_wait: Some(at_most), ..self.clock(&clock) }
    }

    pub(crate) fn starting_at(self, checkpoint: Uuid) -> Self {
        Self { from: Some(checkpoint), ..self }
    }

    /// Returns the graph with its saver, for example to read the thread or to send it a signal.
    pub fn graph(&self) -> &CompiledGraph<S, C, I, O> {
        &self.graph
    }

    /// Runs the graph with an input or a command, or continues the thread with `()`. If the run asks questions, the
    /// session resumes the run with the operator's answers.
    ///
    /// Returns when the run has ended. Also returns when the run waits for an answer that the operator does not have,
    /// or for a time that [`let_time_pass`](Self::let_time_pass) does not skip. A session resumes a run at most 1,000
    /// times.
    pub async fn run(&mut self, input: impl GraphInput<S, I>) -> Trace<O> {
        let mut recorder = Recorder::default();
        let mut result = self.run_once(input, &mut recorder).await;
        for _ in 0..ROUNDS {
            let Ok(Outcome::Interrupted(Interrupted { questions, resumable: true, .. })) = &result else {
                return recorder.finish(result);
            };
            let answers = self.collect_answers(questions, &mut recorder);
            result = if !answers.is_empty() {
                self.run_once(Command::answers(answers), &mut recorder).await
            } else if self.advance_to_due(questions) {
                self.run_once((), &mut recorder).await
            } else {
                return recorder.finish(result);
            };
        }
        recorder.finish(result)
    }

    /// Runs the graph with this user message as the input.
    pub async fn say(&mut self, text: impl Into<String>) -> Trace<O>
    where
        Message: GraphInput<S, I>,
    {
        self.run(Message::user(text.into())).await
    }

    async fn run_once(
        &mut self,
        input: impl GraphInput<S, I>,
        recorder: &mut Recorder,
    ) -> Result<Outcome<O>, RunError> {
        let mut config = self.config.clone().stream_subgraphs(true).stream_capacity(usize::MAX);
        if let Some(clock) = &self.clock {
            config = config.sleep_in_place(Duration::ZERO).at(clock.now());
        }
        if let Some(checkpoint) = self.from.take() {
            config = config.checkpoint(checkpoint);
        }
        let mut events = self.graph.stream(input).config(config).context((self.context)()).modes(Recorder::MODES);
        while let Some(event) = events.next().await {
            recorder.record_event(&event?);
        }
        events.outcome().await
    }

    fn collect_answers(&self, questions: &[Question], recorder: &mut Recorder) -> Vec<(String, Value)> {
        let mut answers = Vec::new();
        for question in questions.iter().filter(|question| question.kind.is_person()) {
            let answer = self.operator.reply(question);
            recorder.record_question(question, answer.clone());
            answers.extend(answer.map(|answer| (question.id.clone(), answer)));
        }
        answers
    }

    /// Moves the clock to the earliest due time of the questions. Returns false if the session has no clock, if no
    /// question has a due time, or if the wait exceeds `max_wait`.
    fn advance_to_due(&self, questions: &[Question]) -> bool {
        let (Some(clock), Some(max_wait)) = (&self.clock, self.max_wait) else { return false };
        let Some(due) = questions.iter().filter_map(|question| question.due).min() else { return false };
        let left = due.duration_since(clock.now()).unwrap_or_default();
        if left > max_wait {
            return false;
        }
        clock.advance_to(due);
        clock.now() >= due || SystemTime::now() >= due
    }
}
