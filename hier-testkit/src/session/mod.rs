//! Drives a graph in a test.

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

/// How often a run goes on with answers or after a wait, before it counts as one that never ends.
const ROUNDS: usize = 1_000;

/// Drives a graph in a test: gives it an input, answers what it asks, lets time pass, and writes down what it did.
///
/// All runs of a session are of one thread, so that a second [`run`](Self::run) is the next turn of a conversation. The thread is
/// kept in memory, unless [`saver`](Self::saver) says otherwise.
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
pub struct Session<S: Values, C, I, O> {
    graph: CompiledGraph<S, C, I, O>,
    context: Arc<dyn Fn() -> C + Send + Sync>,
    config: Config,
    operator: FakeOperator,
    clock: Option<Clock>,
    /// How far the clock is moved at once to what the thread waits for.
    patience: Option<Duration>,
    /// The checkpoint from which the next run goes on, if it is not the latest.
    from: Option<Uuid>,
}

impl<S: Values, C, I, O> fmt::Debug for Session<S, C, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graph, config, operator, clock, patience, .. } = self;
        let mut shown = f.debug_struct("Session");
        shown.field("graph", graph).field("thread", &config.thread_id()).field("operator", operator);
        shown.field("clock", clock).field("patience", patience).finish_non_exhaustive()
    }
}

impl<S, C, I, O> Session<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S> + Unpin,
{
    /// A session with this graph; the function makes the context of each run.
    pub fn new(graph: &CompiledGraph<S, C, I, O>, context: impl Fn() -> C + Send + Sync + 'static) -> Self {
        Self {
            graph: graph.clone().checkpointer(MemorySaver::new()),
            context: Arc::new(context),
            config: Config::new().thread("test"),
            operator: FakeOperator::new(),
            clock: None,
            patience: None,
            from: None,
        }
    }

    /// Keeps the thread with this saver.
    #[must_use]
    pub fn saver(mut self, saver: impl Checkpointer) -> Self {
        self.graph = self.graph.checkpointer(saver);
        self
    }

    /// How the graph is run: thread, limits, durability, breakpoints.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Who answers what is asked. Without one, a run that asks ends there.
    #[must_use]
    pub fn operator(mut self, operator: FakeOperator) -> Self {
        self.operator = operator;
        self
    }

    /// By which clock timers and deadlines go. No sleep is waited in place then: a run that sleeps ends, and the next one goes on
    /// if the clock was moved far enough.
    #[must_use]
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Moves the clock on to whatever the thread waits for, as long as that is not further away than this: a run that sleeps for a
    /// week goes on at once. With a clock of its own unless one was given.
    #[must_use]
    pub fn let_time_pass(self, at_most: Duration) -> Self {
        let clock = self.clock.clone().unwrap_or_default();
        Self { patience: Some(at_most), ..self.clock(&clock) }
    }

    /// Lets the next run go on from this checkpoint of the thread.
    pub(crate) fn starting_at(self, checkpoint: Uuid) -> Self {
        Self { from: Some(checkpoint), ..self }
    }

    /// The graph with its saver: to read the thread, to change it, to send it a signal.
    pub fn graph(&self) -> &CompiledGraph<S, C, I, O> {
        &self.graph
    }

    /// Runs the graph with a new input, a command, or `()` to go on, until it has finished or nobody knows an answer.
    pub async fn run(&mut self, input: impl GraphInput<S, I>) -> Trace<O> {
        let mut recorder = Recorder::default();
        let mut result = self.once(input, &mut recorder).await;
        for _ in 0..ROUNDS {
            let Ok(Outcome::Interrupted(Interrupted { questions, resumable: true, .. })) = &result else {
                return recorder.finish(result);
            };
            let answers = self.reply(questions, &mut recorder);
            result = if !answers.is_empty() {
                self.once(Command::answers(answers), &mut recorder).await
            } else if self.wait_for(questions) {
                self.once((), &mut recorder).await
            } else {
                return recorder.finish(result);
            };
        }
        recorder.finish(result)
    }

    /// Runs the graph with this message as the input of a chat.
    pub async fn say(&mut self, text: impl Into<String>) -> Trace<O>
    where
        Message: GraphInput<S, I>,
    {
        self.run(Message::user(text.into())).await
    }

    /// One run.
    async fn once(&mut self, input: impl GraphInput<S, I>, recorder: &mut Recorder) -> Result<Outcome<O>, RunError> {
        let mut config = self.config.clone().stream_subgraphs(true).stream_capacity(usize::MAX);
        if let Some(clock) = &self.clock {
            config = config.sleep_in_place(Duration::ZERO).at(clock.now());
        }
        if let Some(checkpoint) = self.from.take() {
            config = config.checkpoint(checkpoint);
        }
        let mut events = self.graph.stream(input).config(config).context((self.context)()).modes(Recorder::MODES);
        while let Some(event) = events.next().await {
            recorder.note(&event?);
        }
        events.outcome().await
    }

    /// The answers that the operator has.
    fn reply(&self, questions: &[Question], recorder: &mut Recorder) -> Vec<(String, Value)> {
        let mut answers = Vec::new();
        for question in questions.iter().filter(|question| question.kind.is_person()) {
            let answer = self.operator.reply(question);
            recorder.asked(question, answer.clone());
            answers.extend(answer.map(|answer| (question.id.clone(), answer)));
        }
        answers
    }

    /// Moves the clock to the time at which one of these is due, if that is near enough.
    fn wait_for(&self, questions: &[Question]) -> bool {
        let (Some(clock), Some(patience)) = (&self.clock, self.patience) else { return false };
        let Some(due) = questions.iter().filter_map(|question| question.due).min() else { return false };
        let left = due.duration_since(clock.now()).unwrap_or_default();
        if left > patience {
            return false;
        }
        clock.advance_to(due);
        clock.now() >= due || SystemTime::now() >= due
    }
}
