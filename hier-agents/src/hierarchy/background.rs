//! Background subagents. Each of them runs on its own thread while its supervisor continues.
//!
//! The supervisor's state has a record of each background subagent. The record is stored with the call that starts the
//! subagent. The end of the subagent is stored with the call that returns this end. In between, each node of the
//! supervisor that calls the model or a tool keeps the subagent running
//! ([`BackgroundSet::keep_running`](crate::react::BackgroundSet::keep_running)). After a crash, the subagent continues
//! from its own checkpoints.

use std::sync::Arc;

use async_trait::async_trait;
use futures_core::future::BoxFuture;
use serde_json::Value;
use uuid::Uuid;

use crate::hierarchy::child::SubagentNode;
use crate::hierarchy::spent::spent;
use crate::layer::InheritedLayers;
use crate::prompts;
use crate::react::{BackgroundRunner, SubagentEnd, call_of};
use crate::state::background::{BackgroundStatus, BackgroundSubagent, BackgroundSubagents};
use crate::state::base::BaseState;
use crate::state::budget::Budget;
use crate::state::counts::LayerCounts;
use crate::state::labels::ConversationLabels;
use hier_checkpoint::message::{Message, ToolCall};
use hier_core::checkpoint::SaverError;
use hier_core::graph::{Command, NodeResult, Task};
use hier_core::internals::{Attached, BackgroundEnd, BackgroundStart, ErasedGraph, Subgraph};
use hier_core::state::{Contains, State, Update, Values, Writes};
use hier_core::{Config, NodeError, NodeErrorKind, Outcome, RunError};

/// A subagent that a call starts in the background.
pub(super) struct BackgroundNode<T: Values, C, D>(Arc<SubagentNode<T, C, D>>, BudgetOf<C>);

/// Returns the budget of the whole hierarchy in a context.
pub(crate) type BudgetOf<C> = fn(&C) -> Option<&Arc<Budget>>;

impl<T: Values, C, D> Clone for BackgroundNode<T, C, D> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.1)
    }
}

impl<S, C, T, D> Subgraph<S, C> for BackgroundNode<T, C, D>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
    T: Values,
    D: Send + Sync + 'static,
{
    fn run<'a>(&'a self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>> {
        let started = call_of(task).and_then(|call| self.start_for(task, self.0.args.coerced(call)));
        Box::pin(std::future::ready(started.map(Into::into)))
    }

    fn asks_model(&self) -> bool {
        Subgraph::<S, C>::asks_model(&*self.0)
    }

    fn erased(&self) -> &dyn ErasedGraph {
        Subgraph::<S, C>::erased(&*self.0)
    }

    fn policy(&self) -> Vec<(&'static str, String)> {
        Subgraph::<S, C>::policy(&*self.0)
    }
}

impl<T: Values, C, D> BackgroundNode<T, C, D>
where
    C: Send + Sync + 'static,
    D: Send + Sync + 'static,
{
    pub(super) fn new(node: SubagentNode<T, C, D>, budget: BudgetOf<C>) -> Self {
        Self(Arc::new(node), budget)
    }

    /// Starts a background subagent for a call, and answers the call with its handle.
    fn start_for<S>(&self, task: &Task<S, C>, call: ToolCall) -> Result<Command<S>, NodeError>
    where
        S: Values + Contains<BaseState>,
    {
        let base = task.state().part();
        let handle = self.handle(base, &call);
        let record = BackgroundSubagent {
            agent: self.0.name.to_string(),
            node: task.run().node().to_owned(),
            task: task.run().task_id(),
            status: BackgroundStatus::Running,
            labels: ConversationLabels::new(task.trust().read.with(base.trust_labels.labels())),
            counts: base.layer_counts.clone(),
            call,
        };
        self.start(task, &handle, &record, Vec::new())?;
        let channels = BaseState::channels();
        let text = if self.detaches(task) { prompts::detached(&handle) } else { prompts::started(&handle) };
        let started = prompts::answer(&record.call, text);
        let record = BackgroundSubagents::from_iter([(handle, record)]);
        let writes = [channels.messages.write::<S>([started]), channels.background_subagents.write::<S>(record)];
        Ok(Command::update(S::Update::from_writes(Writes::from_iter(writes))))
    }

    /// Returns true if the subagent continues when the supervisor's turn ends.
    fn detaches<S: Values>(&self, task: &Task<S, C>) -> bool {
        self.0.border.is_detached() && task.run().can_detach()
    }

    /// Returns the handle of a new subagent: the name of the subagent, with its number in the conversation.
    fn handle(&self, base: &BaseState, call: &ToolCall) -> String {
        let prefix = format!("{}-", self.0.name);
        let numbers =
            base.background_subagents.iter().filter_map(|(handle, _)| handle.strip_prefix(&prefix)?.parse().ok());
        // Refused calls have no record, so handles are not consecutive.
        let last: usize = numbers.max().unwrap_or_default();
        format!("{prefix}{}", last + base.calls_before(call).filter(|other| other.name == call.name).count() + 1)
    }

    fn ended(&self, ended: Result<Outcome<T>, RunError>) -> SubagentEnd {
        let error = match ended {
            Ok(Outcome::Finished(end)) => {
                let (report, is_success) = self.0.report(&end);
                return SubagentEnd::Ended { report, is_success, labels: self.0.carried_labels(&end) };
            }
            Ok(Outcome::Interrupted(asked)) if asked.questions.iter().all(|question| question.kind.is_person()) => {
                return SubagentEnd::Asks(asked.questions);
            }
            Ok(Outcome::Interrupted(_)) => return self.failed(prompts::WAITS_FOR_SIGNAL),
            Ok(Outcome::Stopped(_)) => return SubagentEnd::Stopped,
            Err(error) => error,
        };
        match error.root() {
            RunError::Saver { error: SaverError::Busy { .. } | SaverError::Superseded { .. }, .. }
                if self.0.border.is_detached() =>
            {
                SubagentEnd::Elsewhere
            }
            RunError::Saver { error, .. } => {
                SubagentEnd::Unstored(NodeError::from_kind(NodeErrorKind::Saver(error.clone()), false))
            }
            RunError::Cancelled { .. } => SubagentEnd::Stopped,
            RunError::Node { error: node, .. } if let NodeErrorKind::WrongAnswer { question, reason } = node.kind() => {
                SubagentEnd::WrongAnswer(question.clone(), reason.clone())
            }
            _ if self.0.border.seals_text() => self.failed(prompts::NO_USABLE_ANSWER),
            _ => self.failed(&error.to_string()),
        }
    }

    /// Returns the end of a run without a final state.
    fn failed(&self, reason: &str) -> SubagentEnd {
        let labels = ConversationLabels::new(self.0.border.trust.carries(self.0.border.only_report));
        SubagentEnd::Ended { report: reason.to_owned(), is_success: false, labels }
    }
}

#[async_trait]
impl<S, C, T, D> BackgroundRunner<S, C> for BackgroundNode<T, C, D>
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
    T: Values,
    D: Send + Sync + 'static,
{
    fn graph(&self) -> &str {
        Subgraph::<S, C>::erased(&*self.0).name()
    }

    fn thread(&self, task: &Task<S, C>, handle: &str, record: &BackgroundSubagent) -> Arc<str> {
        Attached::<T, C, D>::background_thread(task, &record.thread_name(handle))
    }

    fn start(
        &self,
        task: &Task<S, C>,
        handle: &str,
        record: &BackgroundSubagent,
        answers: Vec<(String, Value)>,
    ) -> Result<(), NodeError> {
        let thread = BackgroundRunner::<S, C>::thread(self, task, handle, record);
        if task.run().background().has(&thread) {
            return Ok(());
        }
        let segment = format!("{}:{}", record.node, record.task);
        let mut state = self.0.enter(task, &Some(record.call.clone()));
        self.0.set_labels(&mut state, record.labels);
        self.0.set_counts(&mut state, &record.counts);
        // The share of the budget is reserved now, because the supervisor continues to spend.
        if let Some((whole, stack)) = (self.1)(task.run().shared_context()).zip(self.0.stack(&state)) {
            stack.budget(whole);
        }
        let node = self.clone();
        let end = move |ended| Arc::new(node.ended(ended)) as BackgroundEnd;
        let is_detached = self.detaches(task);
        // The counts of the record belong to the turn that started the subagent. The current turn may be a later one.
        let scope =
            if is_detached { InheritedLayers::with_own_counters(task.run()) } else { task.run().scope().cloned() };
        let start = BackgroundStart { thread, segment, state, scope, answers, is_detached };
        self.0.attached.start_in_background(task, start, end)
    }

    async fn send(&self, task: &Task<S, C>, thread: &str, id: Uuid, message: &Message) -> Result<bool, NodeError> {
        self.0.attached.send_to_background(task, thread, id, message).await
    }

    async fn spent(
        &self,
        task: &Task<S, C>,
        thread: &str,
        record: &BackgroundSubagent,
    ) -> Result<LayerCounts, NodeError> {
        let Some(saver) = task.run().background().saver() else { return Ok(LayerCounts::new()) };
        let graph = Subgraph::<S, C>::erased(&*self.0);
        let spent = spent(graph, &saver, Config::new().thread(thread), record.counts.clone());
        match spent.await {
            Ok(spent) => Ok(spent),
            Err(RunError::Saver { error, .. }) => Err(NodeError::from_kind(NodeErrorKind::Saver(error), false)),
            Err(error) => {
                tracing::warn!(thread, %error, "failed to read the thread of a background subagent: limits do not count what it has spent");
                Ok(LayerCounts::new())
            }
        }
    }

    async fn progress(&self, task: &Task<S, C>, thread: &str) -> Result<(i64, usize), NodeError> {
        self.0.attached.background_progress(task, thread).await
    }

    async fn stands_still(&self, task: &Task<S, C>, thread: &str) -> bool {
        self.0.attached.background_stands_still(task, thread).await
    }

    fn is_detached(&self) -> bool {
        self.0.border.is_detached()
    }
}
