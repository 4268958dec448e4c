//! Shared helpers: a graph over a state of a plain `x` and a list `log`, on a thread of a saver in memory, and a count of
//! the runs of each node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, ListQuery, MemorySaver, Saved};
use hier_core::graph::{CompiledGraph, GraphBuilder, NodeDef, Task};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, DynUpdate, Schema};
use hier_core::{Question, Result, StateSnapshot};
use serde_json::{Value, json};

pub(crate) type Builder = GraphBuilder<DynState, Tally>;
pub(crate) type Compiled = CompiledGraph<DynState, Tally>;
pub(crate) type Node = NodeDef<DynState, Tally>;
pub(crate) type NodeTask = Task<DynState, Tally>;

/// The number of runs of each node, including failed ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<BTreeMap<String, usize>>>);

impl Tally {
    /// Counts a run, and returns how many there were, this one included.
    pub(crate) fn hit(&self, name: &str) -> usize {
        let mut counts = self.0.lock().expect("no test panics here");
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn of(&self, name: &str) -> usize {
        self.0.lock().expect("no test panics here").get(name).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Value {
        json!(*self.0.lock().expect("no test panics here"))
    }
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_hours(24);
pub(crate) const WEEK: Duration = Duration::from_hours(168);

/// The state of graphs of macros: a log.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    #[reducer(append)]
    pub(crate) log: Vec<String>,
}

pub(crate) fn config() -> Config {
    Config::new().thread("t")
}

/// A node that runs in parallel with another.
pub(crate) async fn beside(run: &Run<Tally>) -> Result<CaseUpdate> {
    run.context().hit("beside");
    Ok(Case::update().log(["beside"]))
}

pub(crate) fn schema() -> Schema {
    Schema::new().last("x").reduced("log", Builtin::Append)
}

pub(crate) fn builder() -> Builder {
    over(schema())
}

pub(crate) fn over(schema: Schema) -> Builder {
    let mut builder = GraphBuilder::dynamic("case", schema);
    builder = builder.lenient();
    builder
}

/// A graph with the rules of users, without LangGraph's leniency.
pub(crate) fn strict() -> Builder {
    GraphBuilder::dynamic("case", schema())
}

/// A graph of nodes that log their names.
pub(crate) fn marks(names: &[&str]) -> Builder {
    let mut builder = builder();
    for name in names {
        builder = builder.node(*name, mark());
    }
    builder
}

/// A chain of nodes that log their names.
pub(crate) fn row(names: &[&str]) -> Builder {
    let mut builder = marks(names);
    builder = builder.edge(START, names[0]);
    for pair in names.windows(2) {
        builder = builder.edge(pair[0], pair[1]);
    }
    builder
}

/// A node that logs its name.
pub(crate) fn mark() -> Node {
    does(|task| Ok(json!({ "log": [task.run().node()] })))
}

/// A node that writes what this returns.
pub(crate) fn does(work: impl Fn(&NodeTask) -> Result<Value> + Send + Sync + 'static) -> Node {
    NodeDef::task(move |task: NodeTask| {
        task.run().context().hit(task.run().node());
        let update = work(&task).and_then(|update| task.state().update(update));
        async move { update }
    })
}

/// A node that fails this many times before it logs its name.
pub(crate) fn fails(times: usize) -> Node {
    does(move |task| {
        let node = task.run().node();
        if task.run().context().of(node) <= times {
            return Err(NodeError::permanent("boom"));
        }
        Ok(json!({ "log": [node] }))
    })
}

/// A node that asks these questions in order, and logs the answers.
pub(crate) fn asks(questions: &'static [&'static str]) -> Node {
    NodeDef::task(move |task: NodeTask| async move {
        task.run().context().hit(task.run().node());
        let mut answers: Vec<Value> = Vec::new();
        for question in questions {
            answers.push(task.run().interrupt(question).await?);
        }
        task.state().update(json!({ "log": answers }))
    })
}

pub(crate) fn compile(builder: Builder) -> Compiled {
    builder.compile().unwrap_or_else(|error| panic!("{error}"))
}

/// A graph and one thread of it.
pub(crate) struct Bench<K = MemorySaver> {
    pub(crate) graph: Compiled,
    pub(crate) saver: Arc<K>,
    pub(crate) tally: Tally,
    pub(crate) config: Config,
}

impl Bench {
    pub(crate) fn new(builder: Builder) -> Self {
        Self::on(builder, MemorySaver::new())
    }
}

impl<K: Checkpointer> Bench<K> {
    pub(crate) fn on(builder: Builder, saver: K) -> Self {
        let saver = Arc::new(saver);
        let graph = compile(builder).checkpointer(saver.clone());
        Self { graph, saver, tally: Tally::default(), config: Config::new().thread("t") }
    }

    /// Begins with an input.
    pub(crate) async fn start(&self, input: Value) -> Result<Outcome<DynState>, RunError> {
        let input = self.graph.update(input).expect("the input is of the graph's channels");
        self.graph.invoke(input).config(self.config.clone()).context(self.tally.clone()).await
    }

    /// Continues the thread.
    pub(crate) async fn continue_run(&self) -> Result<Outcome<DynState>, RunError> {
        self.continue_from(self.config.clone()).await
    }

    pub(crate) async fn continue_from(&self, config: Config) -> Result<Outcome<DynState>, RunError> {
        self.graph.invoke(()).config(config).context(self.tally.clone()).await
    }

    pub(crate) async fn command(&self, command: Command<DynState>) -> Result<Outcome<DynState>, RunError> {
        self.graph.invoke(command).config(self.config.clone()).context(self.tally.clone()).await
    }

    pub(crate) async fn answer(&self, answer: impl Serialize) -> Result<Outcome<DynState>, RunError> {
        self.command(Command::resume(answer)).await
    }

    pub(crate) fn update(&self, update: Value) -> DynUpdate {
        self.graph.update(update).expect("the update is of the graph's channels")
    }

    /// The live state.
    pub(crate) async fn state(&self) -> StateSnapshot<DynState> {
        self.graph.state(self.config.clone()).await.expect("the thread can be read")
    }

    /// The state at this checkpoint of the history, 0 being the oldest.
    pub(crate) async fn history(&self) -> Vec<StateSnapshot<DynState>> {
        let mut history =
            self.graph.history(self.config.clone(), ListQuery::default()).await.expect("the thread can be read");
        history.reverse();
        history
    }

    /// The history as `[parent, source, step, next, log]`, oldest first; parents by their place.
    pub(crate) async fn tree(&self) -> Vec<Value> {
        let history = self.history().await;
        let place = |id| history.iter().position(|at| at.checkpoint == id);
        let show = |at: &StateSnapshot<DynState>| {
            let parent = at.parent.and_then(|parent| place(Some(parent)));
            let log = at.values.get("log").cloned().unwrap_or(json!([]));
            json!([parent, at.source.map(hier_core::checkpoint::Source::name), at.step, at.next, log])
        };
        history.iter().map(show).collect()
    }

    /// The configuration of the checkpoint at this place of the history.
    pub(crate) async fn at(&self, place: usize) -> Config {
        self.history().await[place].config.clone()
    }

    /// Returns the stored checkpoint of the root.
    pub(crate) async fn stored(&self) -> Option<Saved> {
        self.saver.get("t", "", None).await.expect("memory does not fail")
    }
}

/// Returns the open questions.
pub(crate) fn questions<S: std::fmt::Debug>(outcome: Outcome<S>) -> Vec<Question> {
    match outcome {
        Outcome::Interrupted(interrupted) => interrupted.questions,
        other => panic!("nothing is asked: {other:?}"),
    }
}

/// Returns the open questions as texts.
pub(crate) fn asked<S: std::fmt::Debug>(outcome: Outcome<S>) -> Vec<String> {
    questions(outcome).iter().map(|question| question.value.as_str().unwrap_or_default().to_owned()).collect()
}

/// The log at the end of a run that has finished.
pub(crate) fn log(outcome: Outcome<DynState>) -> Value {
    match outcome {
        Outcome::Finished(state) => state.get("log").cloned().unwrap_or(json!([])),
        other => panic!("it has not finished: {other:?}"),
    }
}

/// The log of a state.
pub(crate) fn log_of(state: &StateSnapshot<DynState>) -> Value {
    state.values.get("log").cloned().unwrap_or(json!([]))
}
