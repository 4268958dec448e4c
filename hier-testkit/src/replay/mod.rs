mod compare;
mod report;
mod turn;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, ListQuery, SaverError};
use hier_core::graph::{CompiledGraph, GraphOutput};
use hier_core::state::Values;
use hier_core::{Config, Outcome, Question};
use serde_json::Value;
use uuid::Uuid;

pub use report::{ReplayChange, ReplayReport, ReplayedTurn};
pub use turn::StoredTurn;

use crate::session::{FakeOperator, Session, Trace};

/// Runs stored threads again with the current code and reports the differences. Use a replay before a deployment, on a
/// copy of the production database.
///
/// A *turn* is everything from one input to the next, including the answers of people. The replay runs each turn again
/// from its stored input, and answers questions with the recorded answers. The report compares the nodes that ran in
/// each superstep of the root graph, and how the turn ended. If both are equal, the report compares the values of the
/// channels at the end, without message ids.
///
/// * The replay executes the nodes, so give them a context without side effects.
///   [`ScriptedModel::repeating`](crate::ScriptedModel::repeating) repeats the recorded replies of a model.
/// * Each turn runs on a copy of its thread. The replay makes the copy in the same saver, and deletes the copy
///   afterwards. The thread itself does not change. If the replay is dropped or killed, one copy is left. The name of
///   the copy ends with `#replay-` and an id.
/// * Waits end immediately. The replay does not send signals and inbox messages again, so a turn that received one will
///   differ.
///
/// ```
/// use hier_core::checkpoint::MemorySaver;
/// use hier_agents::prelude::*;
/// use hier_testkit::{ReplayChange, Replay};
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Invoice { net: u32, gross: u32 }
///
/// async fn add_tax(state: &Invoice, rate: &Run<u32>) -> InvoiceUpdate {
///     Invoice::update().gross(state.net + state.net * rate.context() / 100)
/// }
///
/// graph! {
///     Billing<Invoice, u32> = Graph { nodes: [add_tax], edges: [START >> add_tax >> END] }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let saver = MemorySaver::new();
/// let billing = Billing::compile();
/// billing.clone().checkpointer(saver.clone()).invoke(Invoice::update().net(100)).thread("1").context(19).await?;
///
/// let report = Replay::new(&billing, saver.clone(), |_turn| || 19).run().await?;
/// assert!(report.is_unchanged(), "{report}");
///
/// // The code has changed: the rate is different now.
/// let report = Replay::new(&billing, saver, |_turn| || 20).run().await?;
/// assert!(matches!(&report.turns[0].changes[..], [ReplayChange::Channel { name, .. }] if name == "gross"), "{report}");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Replay<S: Values, C, I, O, F> {
    graph: CompiledGraph<S, C, I, O>,
    saver: Arc<dyn Checkpointer>,
    context: F,
    operator: FakeOperator,
    threads: Option<Vec<String>>,
    limit: Option<usize>,
    ignored: Vec<String>,
}

impl<S: Values, C, I, O, F> fmt::Debug for Replay<S, C, I, O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graph, operator, threads, limit, ignored, .. } = self;
        let mut shown = f.debug_struct("Replay");
        shown.field("graph", graph).field("operator", operator).field("threads", threads);
        shown.field("limit", limit).field("ignored", ignored).finish_non_exhaustive()
    }
}

impl<S, C, I, O, F, M> Replay<S, C, I, O, F>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S> + Unpin,
    F: Fn(&StoredTurn<S>) -> M,
    M: Fn() -> C + Send + Sync + 'static,
{
    /// Creates a replay of the graph's threads in this saver.
    ///
    /// The replay calls `context` once for each turn. The returned function creates the context of each run of the
    /// turn. The first run of a turn receives the input. Each time that the replay resumes the turn, for example with
    /// an answer, another run starts.
    pub fn new(graph: &CompiledGraph<S, C, I, O>, saver: impl Checkpointer, context: F) -> Self {
        let (graph, saver) = (graph.clone(), Arc::new(saver));
        Self { graph, saver, context, operator: FakeOperator::new(), threads: None, limit: None, ignored: Vec::new() }
    }

    /// Replays only the threads with these ids. Defaults to all threads that are stored under the graph's current name.
    /// To replay threads that are stored under an earlier name of the graph, pass their ids.
    pub fn threads<T: Into<String>>(mut self, threads: impl IntoIterator<Item = T>) -> Self {
        self.threads = Some(threads.into_iter().map(Into::into).collect());
        self
    }

    /// Limits the number of threads. If [`threads`](Self::threads) is set, the replay uses the first ones of that list.
    /// Otherwise, it uses the threads with the newest checkpoints.
    pub fn limit(mut self, threads: usize) -> Self {
        self.limit = Some(threads);
        self
    }

    /// Excludes a channel from the comparison, for example a channel that contains the time.
    pub fn ignore(mut self, channel: impl Into<String>) -> Self {
        self.ignored.push(channel.into());
        self
    }

    /// Sets an operator that answers questions without a recorded answer. By default, the replay of a turn ends at such
    /// a question.
    pub fn operator(mut self, operator: FakeOperator) -> Self {
        self.operator = operator;
        self
    }

    /// Runs the replay.
    ///
    /// # Errors
    ///
    /// Fails if the saver fails, or if it has no [`ThreadAdmin`](hier_core::checkpoint::ThreadAdmin), with which the
    /// replay lists and copies threads. If the graph cannot read a thread, or if a run fails, the report contains the
    /// error.
    pub async fn run(self) -> Result<ReplayReport, SaverError> {
        let mut report = ReplayReport::default();
        for thread in self.selected_threads().await? {
            report.turns.extend(self.replay_thread(&thread).await?);
        }
        Ok(report)
    }

    async fn selected_threads(&self) -> Result<Vec<String>, SaverError> {
        let mut threads = if let Some(threads) = &self.threads {
            threads.clone()
        } else {
            let graph = &*self.graph.spec().name;
            let stored = self.saver.admin()?.threads(None).await?;
            let own =
                stored.iter().filter(|info| info.latest.as_ref().is_some_and(|latest| latest.schema.graph == graph));
            own.map(|info| info.thread.to_string()).collect()
        };
        threads.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(threads)
    }

    async fn replay_thread(&self, thread: &str) -> Result<Vec<ReplayedTurn>, SaverError> {
        let graph = self.graph.clone().checkpointer(self.saver.clone());
        let initial = graph.state(format!("{thread}#replay-none")).await;
        let states = graph.states(thread).await;
        let (initial, states) = match (initial, states) {
            (Ok(initial), Ok(states)) => (initial.values, states),
            (Err(error), _) | (_, Err(error)) => {
                let changes = vec![ReplayChange::Unreadable(error.to_string())];
                return Ok(vec![ReplayedTurn { thread: thread.to_owned(), turn: 0, changes }]);
            }
        };
        if let Some(reason) = states.iter().find_map(|state| state.unreadable.as_ref()) {
            let changes = vec![ReplayChange::Unreadable(reason.clone())];
            return Ok(vec![ReplayedTurn { thread: thread.to_owned(), turn: 0, changes }]);
        }
        let mut replayed = Vec::new();
        for turn in turn::turns(thread, &initial, states) {
            let changes =
                if turn.was_changed() { vec![ReplayChange::NotReplayed] } else { self.replay_turn(&turn).await? };
            replayed.push(ReplayedTurn { thread: turn.thread, turn: turn.turn, changes });
        }
        Ok(replayed)
    }

    async fn replay_turn(&self, turn: &StoredTurn<S>) -> Result<Vec<ReplayChange>, SaverError> {
        let ids: Vec<Uuid> = turn.states.iter().filter_map(|state| state.checkpoint).collect();
        let Some(input) = ids.first() else { return Ok(Vec::new()) };
        let answers = turn::answers(&self.saver, &turn.thread, &ids).await?;
        let copy = format!("{}#replay-{}", turn.thread, Uuid::new_v4().simple());
        self.saver.admin()?.copy_thread(&turn.thread, &copy).await?;
        let mut session = Session::new(&self.graph, (self.context)(turn))
            .saver(self.saver.clone())
            .config(Config::new().thread(&*copy))
            .operator(recorded_operator(answers, self.operator.clone()))
            .let_time_pass(Duration::MAX)
            .starting_at(*input);
        let trace = session.run(()).await;
        let mut changes = compare::steps_and_end(turn, &trace);
        if changes.is_empty() {
            changes.extend(self.compare_state(turn, &session, &trace, &copy).await);
        }
        self.saver.delete_thread(&copy).await?;
        Ok(changes)
    }

    /// Compares the state, unless the recorded turn was cut off and has now finished.
    async fn compare_state(
        &self,
        turn: &StoredTurn<S>,
        session: &Session<S, C, I, O>,
        trace: &Trace<O>,
        copy: &str,
    ) -> Vec<ReplayChange> {
        if turn.states.last().is_some_and(|last| !last.next.is_empty())
            && trace.result.as_ref().is_ok_and(Outcome::is_finished)
        {
            return Vec::new();
        }
        let latest = ListQuery { limit: Some(1), ..ListQuery::default() };
        match session.graph().history(copy, latest).await {
            Ok(states) => {
                let now = states.first().map_or(&turn.before, |state| &state.values);
                compare::channels(turn.after(), now, &self.ignored)
                    .unwrap_or_else(|error| vec![ReplayChange::Unreadable(error.to_string())])
            }
            Err(error) => vec![ReplayChange::Unreadable(error.to_string())],
        }
    }
}

/// Creates an operator that gives the recorded answers. `otherwise` answers the other questions.
fn recorded_operator(answers: turn::RecordedAnswers, otherwise: FakeOperator) -> FakeOperator {
    let answers = Mutex::new(answers);
    let recorded = move |question: &Question| -> Option<Value> {
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get_mut(question.path.last()?)?.pop_front()
    };
    FakeOperator::new().rule(recorded).rule(move |question| otherwise.reply(question))
}
