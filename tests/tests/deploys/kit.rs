//! Programs of two versions, and a thread that the first begins and the second continues.

use std::collections::BTreeSet;
use std::sync::Arc;

use hier_core::checkpoint::Checkpointer;
use hier_core::graph::handler::IntoOutput;
use hier_core::graph::{CompiledGraph, DynCommand, DynGraph, DynInput, DynRun, Erased, GraphBuilder, NodeDef, Task};
use hier_core::state::{State, Values};
use hier_core::{Config, Outcome, RunError};
use hier_testkit::lock::{Lock, LockBuilder, LockReport};
use serde_json::{Value, json};

/// A state with a log, so that nodes can be written once for all states.
pub(crate) trait Logs: State<Update: IntoOutput<Self>> {
    fn logged(text: &str) -> Self::Update;
}

/// Declares states with a log, and the first comes with each state.
macro_rules! state {
    ($(#[$attribute:meta])* $name:ident { $($fields:tt)* }) => {
        #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
        $(#[$attribute])*
        pub(crate) struct $name {
            #[reducer(append)]
            pub(crate) log: Vec<String>,
            $($fields)*
        }

        impl $crate::kit::Logs for $name {
            fn logged(text: &str) -> Self::Update {
                <$name as hier_core::state::State>::update().log([text.to_owned()])
            }
        }
    };
}
pub(crate) use state;

pub(crate) type Builder<S> = GraphBuilder<S>;

/// A node that logs a text.
pub(crate) fn note<S: Logs>(text: &'static str) -> NodeDef<S> {
    NodeDef::task(move |_: Task<S>| async move { S::logged(text) })
}

/// A node that asks, and logs the answer.
pub(crate) fn ask<S: Logs>() -> NodeDef<S> {
    NodeDef::task(async |task: Task<S>| -> hier_core::Result<S::Update> {
        let answer: String = task.run().interrupt(&"who signs?").await?;
        Ok(S::logged(&answer))
    })
}

/// A graph `review` of `weigh`, the question `sign`, and `accept`.
pub(crate) fn review<S: Logs>() -> CompiledGraph<S> {
    line("review", "weigh", "sign", "accept")
}

/// A graph of three nodes in a line, of which the second asks.
pub(crate) fn line<S: Logs>(name: &str, first: &'static str, second: &str, third: &'static str) -> CompiledGraph<S> {
    let nodes = Builder::new(name).node(first, note(first)).node(second, ask()).node(third, note(third));
    compile(nodes.edge("__start__", first).edge(first, second).edge(second, third).edge(third, "__end__"))
}

pub(crate) fn compile<S: Logs>(graph: Builder<S>) -> CompiledGraph<S> {
    graph.compile().unwrap_or_else(|error| panic!("{error}"))
}

/// One version of a program.
pub(crate) struct Program {
    graph: Arc<dyn DynGraph>,
    pub(crate) lock: Lock,
}

impl<S: Values> From<CompiledGraph<S>> for Program {
    fn from(graph: CompiledGraph<S>) -> Self {
        let lock = LockBuilder::new().graph(&graph).build();
        let erased: Erased<S, ()> = graph.erase(|_| Ok(()));
        Self { graph: Arc::new(erased), lock }
    }
}

impl Program {
    /// A program whose graph has a context.
    #[allow(clippy::needless_pass_by_value, reason = "the program owns its graph")]
    pub(crate) fn of_agent<S: Values, C: Send + Sync + 'static>(
        graph: CompiledGraph<S, C>,
        context: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        let lock = LockBuilder::new().graph(&graph).build();
        Self { graph: Arc::new(graph.erase(move |_| Ok(context()))), lock }
    }

    pub(crate) fn with(mut self, other: Self) -> Self {
        self.lock.graphs.extend(other.lock.graphs);
        self
    }

    pub(crate) async fn run(
        &self,
        saver: &Arc<dyn Checkpointer>,
        thread: &str,
        input: DynInput,
    ) -> Result<Outcome<Value>, RunError> {
        let mut run = DynRun::new(input, Config::new().thread(thread));
        run.saver = Some(saver.clone());
        self.graph.run(run).await
    }

    /// Runs a thread to its end, with the answer `Ada` to each question, then once more with the next input.
    async fn finish(
        &self,
        saver: &Arc<dyn Checkpointer>,
        thread: &str,
        again: Option<&Value>,
    ) -> Result<Value, String> {
        let shown = |error: RunError| error.to_string();
        let mut state = self.graph.state(saver.clone(), Config::new().thread(thread)).await.map_err(shown)?;
        let mut next = again.cloned();
        for _ in 0..10 {
            let input = if !state.questions.is_empty() {
                let answers = state.questions.iter().map(|question| (question.id.clone(), json!("Ada")));
                let mut command = DynCommand::default();
                command.resume = Some(Value::Object(answers.collect()));
                DynInput::Command(command)
            } else if !state.is_finished() {
                DynInput::Continue
            } else if let Some(input) = next.take() {
                DynInput::New(input)
            } else {
                return Ok(state.values);
            };
            // A panic of the engine is a failure of the resumed thread, not of the test.
            let _ = self.run(saver, thread, input).await.map_err(shown)?;
            state = self.graph.state(saver.clone(), Config::new().thread(thread)).await.map_err(shown)?;
        }
        Err("the thread does not end".to_owned())
    }
}

/// A change of a program, and a thread of the old one.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) old: Program,
    pub(crate) new: Program,
    /// The input of the thread.
    pub(crate) input: Value,
    /// True if the database is encrypted.
    pub(crate) has_key: bool,
    /// Another input, before the deploy to let the thread finish, and after it.
    pub(crate) again: Option<Value>,
    /// The codes of the changes that break the thread. Empty for a harmless change.
    pub(crate) breaks: &'static [&'static str],
}

pub(crate) fn case(name: &'static str, old: impl Into<Program>, new: impl Into<Program>) -> Case {
    Case { name, old: old.into(), new: new.into(), input: json!({}), has_key: false, again: None, breaks: &[] }
}

impl Case {
    pub(crate) fn input(self, input: Value) -> Self {
        Self { input, ..self }
    }

    /// The database is encrypted.
    pub(crate) fn with_key(self) -> Self {
        Self { has_key: true, ..self }
    }

    /// The thread has finished, and gets this input after the deploy.
    pub(crate) fn finished(self, again: Value) -> Self {
        Self { again: Some(again), ..self }
    }

    pub(crate) fn breaks(self, breaks: &'static [&'static str]) -> Self {
        Self { breaks, ..self }
    }

    /// Lets the thread stand, asks for the verdict, and resumes the thread with both programs.
    pub(crate) async fn check(&self, saver: Arc<dyn Checkpointer>) -> Result<(), String> {
        let fail = |what: String| Err(format!("{}: {what}", self.name));
        let (old, new) = (&self.old, &self.new);
        let begun = old.run(&saver, "thread", DynInput::New(self.input.clone())).await;
        if let Err(error) = begun {
            return fail(format!("cannot begin: {error}"));
        }
        if self.again.is_some() {
            old.finish(&saver, "thread", None).await?;
        }
        let report =
            LockReport::with_threads(&old.lock, &new.lock, &*saver).await.map_err(|error| error.to_string())?;
        let admin = saver.admin().map_err(|error| error.to_string())?;
        admin.copy_thread("thread", "copy").await.map_err(|error| error.to_string())?;
        let was = old.finish(&saver, "copy", self.again.as_ref()).await?;
        let is = new.finish(&saver, "thread", self.again.as_ref()).await;
        saver.delete_thread("thread").await.map_err(|error| error.to_string())?;
        saver.delete_thread("copy").await.map_err(|error| error.to_string())?;

        let met: BTreeSet<&str> =
            report.findings.iter().filter(|found| found.count() > 0).map(|found| found.finding.change.code()).collect();
        if met != self.breaks.iter().copied().collect() {
            return fail(format!("meets {met:?} instead of {:?}\n{report}\nresumed: {is:?}", self.breaks));
        }
        match (self.breaks.is_empty(), &is) {
            (true, Err(error)) => fail(format!("is said to be harmless, and fails: {error}")),
            (true, Ok(is)) if !contains(is, &was) => fail(format!("is said to be harmless: {was} became {is}")),
            (true, _) if report.breaks().next().is_some() => {
                fail(format!("has a break that no thread meets\n{report}"))
            }
            (false, Ok(is)) if results(is) == results(&was) => {
                fail(format!("is said to break, and ends as before: {is}\n{report}"))
            }
            _ => Ok(()),
        }
    }
}

/// The values that do not differ by chance, as ids of messages do.
fn results(state: &Value) -> Value {
    ["log", "notes", "x", "y"].iter().map(|channel| state[channel].clone()).collect()
}

/// Returns true if a log has all entries of an earlier one.
fn contains(is: &Value, was: &Value) -> bool {
    let mut left = is["log"].as_array().cloned().unwrap_or_default();
    was["log"].as_array().into_iter().flatten().all(|entry| {
        let place = left.iter().position(|other| other == entry);
        place.map(|place| left.remove(place)).is_some()
    })
}
