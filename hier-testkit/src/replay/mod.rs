//! Stored threads, run again with the code of today.

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

pub use report::{Change, ReplayReport, ReplayedTurn};
pub use turn::StoredTurn;

use crate::session::{FakeOperator, Session, Trace};

/// Runs what a saver has stored again, with the code of today, and says what has changed: before a deploy, over a copy of
/// the production database.
///
/// Each turn of each thread starts from its stored input, and is given the answers that people gave then. Compared are the nodes
/// that ran in each step of the root graph, the values of its channels at the end, and how it ended. Message ids do not count.
///
/// * The nodes really run: give them a context whose clients do nothing that counts. A model that says what it said then is
///   [`ScriptedModel::repeating`](crate::ScriptedModel::repeating).
/// * Each thread is copied within the saver, run there and deleted again; threads themselves are not changed. A replay that
///   is dropped or killed leaves such a copy: its name ends with `#replay-` and an id.
/// * Waits are over at once. Signals and messages of the inbox are not sent again: a turn that took some comes out otherwise.
///
/// ```
/// use hier_core::checkpoint::MemorySaver;
/// use hier_agents::prelude::*;
/// use hier_testkit::{Change, Replay};
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
/// # async fn main() -> Result<()> {
/// let saver = MemorySaver::new();
/// let billing = Billing::compile();
/// billing.clone().checkpointer(saver.clone()).invoke(Invoice::update().net(100), Config::thread("1"), 19).await?;
///
/// let report = Replay::new(&billing, saver.clone(), |_turn| || 19).run().await?;
/// assert!(report.is_unchanged(), "{report}");
///
/// // As after a change of the code: the rate is another.
/// let report = Replay::new(&billing, saver, |_turn| || 20).run().await?;
/// assert!(matches!(&report.turns[0].changes[..], [Change::Channel { name, .. }] if name == "gross"), "{report}");
/// # Ok(())
/// # }
/// ```
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
    /// A replay of the threads of this graph that this saver has. `context` says for each turn what makes the contexts of its runs:
    /// a turn takes one more for each time that it was answered.
    pub fn new(graph: &CompiledGraph<S, C, I, O>, saver: impl Checkpointer, context: F) -> Self {
        let (graph, saver) = (graph.clone(), Arc::new(saver));
        Self { graph, saver, context, operator: FakeOperator::new(), threads: None, limit: None, ignored: Vec::new() }
    }

    /// Only these threads; also those that were stored under another name of the graph.
    #[must_use]
    pub fn threads<T: Into<String>>(mut self, threads: impl IntoIterator<Item = T>) -> Self {
        self.threads = Some(threads.into_iter().map(Into::into).collect());
        self
    }

    /// At most so many threads, those with the newest checkpoint first.
    #[must_use]
    pub fn limit(mut self, threads: usize) -> Self {
        self.limit = Some(threads);
        self
    }

    /// Does not compare this channel: one with the time in it, say.
    #[must_use]
    pub fn ignore(mut self, channel: impl Into<String>) -> Self {
        self.ignored.push(channel.into());
        self
    }

    /// Who answers what nobody was asked then.
    #[must_use]
    pub fn operator(mut self, operator: FakeOperator) -> Self {
        self.operator = operator;
        self
    }

    /// Runs it. An error is one of the saver; what is wrong with a thread stands in the report.
    pub async fn run(self) -> Result<ReplayReport, SaverError> {
        let mut report = ReplayReport::default();
        for thread in self.chosen().await? {
            report.turns.extend(self.thread(&thread).await?);
        }
        Ok(report)
    }

    /// The threads that are run again.
    async fn chosen(&self) -> Result<Vec<String>, SaverError> {
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

    /// Runs the turns of a thread again.
    async fn thread(&self, thread: &str) -> Result<Vec<ReplayedTurn>, SaverError> {
        let graph = self.graph.clone().checkpointer(self.saver.clone());
        let initial = graph.state(Config::thread(format!("{thread}#replay-none"))).await;
        let states = graph.states(Config::thread(thread)).await;
        let (initial, states) = match (initial, states) {
            (Ok(initial), Ok(states)) => (initial.values, states),
            (Err(error), _) | (_, Err(error)) => {
                let changes = vec![Change::Unreadable(error.to_string())];
                return Ok(vec![ReplayedTurn { thread: thread.to_owned(), turn: 0, changes }]);
            }
        };
        if let Some(reason) = states.iter().find_map(|state| state.unreadable.as_ref()) {
            let changes = vec![Change::Unreadable(reason.clone())];
            return Ok(vec![ReplayedTurn { thread: thread.to_owned(), turn: 0, changes }]);
        }
        let mut replayed = Vec::new();
        for turn in turn::turns(thread, &initial, states) {
            let changes = if turn.was_changed() { vec![Change::NotReplayed] } else { self.turn(&turn).await? };
            replayed.push(ReplayedTurn { thread: turn.thread, turn: turn.turn, changes });
        }
        Ok(replayed)
    }

    /// Runs a turn again on a copy of the thread.
    async fn turn(&self, turn: &StoredTurn<S>) -> Result<Vec<Change>, SaverError> {
        let ids: Vec<Uuid> = turn.states.iter().filter_map(|state| state.checkpoint).collect();
        let Some(input) = ids.first() else { return Ok(Vec::new()) };
        let answers = turn::answers(&self.saver, &turn.thread, &ids).await?;
        let copy = format!("{}#replay-{}", turn.thread, Uuid::new_v4().simple());
        self.saver.admin()?.copy_thread(&turn.thread, &copy).await?;
        let mut session = Session::new(&self.graph, (self.context)(turn))
            .saver(self.saver.clone())
            .config(Config::thread(&*copy))
            .operator(answering(answers, self.operator.clone()))
            .let_time_pass(Duration::MAX)
            .starting_at(*input);
        let trace = session.run(()).await;
        let mut changes = compare::course(turn, &trace);
        if changes.is_empty() {
            changes.extend(self.state(turn, &session, &trace, &copy).await);
        }
        self.saver.delete_thread(&copy).await?;
        Ok(changes)
    }

    /// What is not as it was in the state, if the turn ended as it did then.
    async fn state(
        &self,
        turn: &StoredTurn<S>,
        session: &Session<S, C, I, O>,
        trace: &Trace<O>,
        copy: &str,
    ) -> Vec<Change> {
        if turn.states.last().is_some_and(|last| !last.next.is_empty())
            && trace.result.as_ref().is_ok_and(Outcome::is_finished)
        {
            return Vec::new(); // the turn was cut off, and now goes on to its end
        }
        let latest = ListQuery { limit: Some(1), ..ListQuery::default() };
        match session.graph().history(Config::thread(copy), latest).await {
            Ok(states) => {
                let now = states.first().map_or(&turn.before, |state| &state.values);
                compare::channels(turn.after(), now, &self.ignored)
                    .unwrap_or_else(|error| vec![Change::Unreadable(error.to_string())])
            }
            Err(error) => vec![Change::Unreadable(error.to_string())],
        }
    }
}

/// Who answers as was answered then, and after that as this operator.
fn answering(answers: turn::Answers, otherwise: FakeOperator) -> FakeOperator {
    let answers = Mutex::new(answers);
    let then = move |question: &Question| -> Option<Value> {
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get_mut(question.path.last()?)?.pop_front()
    };
    FakeOperator::new().rule(then).rule(move |question| otherwise.reply(question))
}
