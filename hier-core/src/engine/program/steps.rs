//! Durable steps: parts of a task that are done once. The result of each is stored with the task before the task sees it, and is
//! read from there whenever the task runs again.

use std::any::type_name;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::numbers::CallScope;
use super::step_log::{FoundStep, StepRecord};
use super::{Run, STEP, StepKey, StepLog, TaskKey, TaskResume, hash};
use crate::checkpoint::{PendingWrite, SaverError, TaskWrites, codec};
use crate::engine::log::task_log::TaskLog;
use crate::error::{NodeError, NodeErrorKind};
use crate::question::Asker;

/// The known steps of a task and their storage. They are stored with the task, or with the nearest outer task whose graph has
/// checkpoints.
#[derive(Clone)]
pub(crate) struct StepHome {
    /// None in a run without a checkpointer: its steps have numbers only.
    store: Option<Arc<StepStore>>,
    /// The task, for what has to be done once: thread, namespace, superstep and id.
    task_key: Arc<str>,
    pub(super) steps: Arc<StepLog>,
    /// The task inside a graph without checkpoints, or the handler; empty for the task itself.
    scope: String,
    /// Which attempt this is, of the task and of those around it up to the one with which steps are stored.
    attempts: Vec<u32>,
    /// The earlier progress of the task with which steps and answers are stored.
    resume: Option<Arc<TaskResume>>,
}

/// The storage of a task's steps.
struct StepStore {
    log: Arc<TaskLog>,
    checkpoint: Uuid,
    task: Uuid,
    path: Arc<str>,
}

impl StepHome {
    /// A call of this name that begins now.
    fn begin(&self, name: &str, arguments: Option<String>) -> StepKey {
        let around = CallScope::current(&self.steps);
        let scope = match around.as_ref().and_then(|around| around.step.as_ref()) {
            // The digest is of a key that has the scope of the task.
            Some(step) => format!("step {}|", step.digest()),
            None => self.scope.clone(),
        };
        let key = StepKey { scope, name: name.to_owned(), arguments, number: 0 };
        let of_task = || self.steps.begin(&self.scope, &self.attempts, &key);
        let number = around.map_or_else(of_task, |around| around.numbers.next(&key, &of_task));
        StepKey { number, ..key }
    }

    /// A call of this name and with these arguments that begins now.
    fn begin_for<A: Serialize + ?Sized>(&self, name: &str, arguments: &A) -> Result<StepKey, NodeError> {
        let arguments = hash(arguments).map_err(|error| {
            NodeError::permanent(format!("the arguments of step `{name}` cannot be serialized: {error}"))
        })?;
        Ok(self.begin(name, Some(arguments)))
    }

    /// A call that the engine records for itself: its hash is none that arguments have.
    pub(super) fn begin_own(&self, name: &str, what: &str) -> StepKey {
        self.begin(name, Some(what.to_owned()))
    }

    /// As the home of a graph without checkpoints, whose tasks number their questions together.
    pub(crate) fn of_graph(mut self) -> Self {
        self.resume.get_or_insert_default();
        self
    }

    /// The earlier progress of the task with which answers are stored.
    pub(super) fn resume(&self) -> Option<&TaskResume> {
        self.resume.as_deref()
    }

    /// The number of a question that is asked now.
    pub(super) fn place_question(&self, identity: &str) -> usize {
        let Some(resume) = &self.resume else { return 0 };
        let key = StepKey::question(identity);
        let of_task = || self.steps.begin(&self.scope, &self.attempts, &key);
        let around = CallScope::current(&self.steps);
        let nth = around.map_or_else(of_task, |around| around.numbers.next(&key, &of_task));
        resume.place(&self.scoped(identity), nth)
    }

    /// Returns true if a question with this identity has an answer, were it asked now.
    pub(super) fn has_answer(&self, identity: &str) -> bool {
        let Some(resume) = &self.resume else { return false };
        let key = StepKey::question(identity);
        let around = CallScope::current(&self.steps);
        let known = around.and_then(|around| around.numbers.peek(&key));
        let nth = known.unwrap_or_else(|| self.steps.peek(&self.scope, &self.attempts, &key));
        resume.has_answer(&self.scoped(identity), nth)
    }

    /// The identity of a question among those of the task with which its answer is stored.
    pub(super) fn scoped(&self, identity: &str) -> String {
        format!("{}{identity}", self.scope)
    }

    /// The place where the answer to a question is stored; none without a checkpointer.
    pub(super) fn asker(&self, number: usize, identity: &str) -> Option<Asker> {
        self.store.as_ref().map(|store| Asker {
            namespace: store.log.namespace.to_string(),
            checkpoint: store.checkpoint,
            task: store.task,
            path: store.path.to_string(),
            number,
            identity: self.scoped(identity),
        })
    }

    /// The result of this call, if it is recorded.
    pub(super) fn find(&self, key: &StepKey) -> Option<FoundStep> {
        self.steps.find(key)
    }

    /// The log with which steps are stored.
    pub(super) fn log(&self) -> Option<&TaskLog> {
        self.store.as_ref().map(|store| &*store.log)
    }

    /// Stores a result. `fresh` says that no earlier attempt to store it was made. With `until`, the task then waits in place until that
    /// time.
    pub(super) async fn store(
        &self,
        found: &FoundStep,
        fresh: bool,
        until: Option<SystemTime>,
    ) -> Result<(), NodeError> {
        let Some(store) = &self.store else { return Ok(()) };
        let value = codec::encode_record(&*found.record)?;
        let writes = vec![PendingWrite { slot: found.slot, channel: STEP.into(), value }];
        let (checkpoint, task, path) = (store.checkpoint, store.task, store.path.clone());
        let writes = TaskWrites { checkpoint, task, path, writes };
        let stored = match (found.letter, until) {
            (None, None) => store.log.write_now(writes).await,
            (None, Some(until)) => store.log.write_until(writes, until).await,
            (Some(letter), _) => store.log.write_taking(writes, letter, fresh).await,
        };
        stored.map_err(unsaved)?;
        self.steps.stored(found.index);
        Ok(())
    }
}

pub(super) fn unsaved(error: SaverError) -> NodeError {
    NodeError::from_kind(NodeErrorKind::Saver(error), false)
}

impl<C> Run<C> {
    /// Does something once: the result is stored with the task before this returns. When the task runs again (after a retry, a timeout,
    /// an interrupt, a kill), the stored result is returned and `work` does not run.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # use hier_core::checkpoint::MemorySaver;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Order { receipt: String }
    /// # async fn charge() -> Result<String> { Ok("r-17".to_owned()) }
    /// # graph! { Shop<Order> = Graph { nodes: [pay], edges: [START >> pay >> END] } }
    /// async fn pay(run: &Run) -> Result<OrderUpdate> {
    ///     let receipt = run.step("charge", async || charge().await).await?;
    ///     let _: bool = run.interrupt(&"Is it to be sent?").await?; // the node runs again, and charges nobody again
    ///     Ok(Order::update().receipt(receipt))
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// # let shop = Shop::compile().checkpointer(MemorySaver::new());
    /// # let asked = shop.invoke(Order::update(), Config::thread("t"), ()).await?;
    /// # assert!(!asked.is_finished());
    /// # assert_eq!(shop.invoke(Command::resume(true), Config::thread("t"), ()).await?.state().receipt, "r-17");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// * *Once* applies to recorded results. If the process is killed after `work` has had its effect and before the result is stored,
    ///   `work` runs again. Pass [`Run::idempotency_key`] to services that accept one. Inside `work` it is the key of this call.
    /// * An error is not recorded: the step is done again. Retry inside `work`, because a loop around the step makes separate calls.
    /// * The name is the key, so the result survives changes to the program around it. Calls with the same name in the same task are
    ///   numbered in the order in which they begin. The n-th call gets the n-th result, whichever call failed or ended first. If that order
    ///   may change (`select!` without `biased`), use different names, or arguments: [`Run::step_for`].
    /// * If a stored result is not a `T` (any more), the call returns an error that says so.
    /// * In a graph without checkpoints (`checkpoints: none`) the result is stored with the nearest outer task that has some. Code
    ///   outside the steps runs again with the whole call.
    /// * With [`Durability::Exit`](crate::Durability::Exit) the result is stored when the run ends, like everything else.
    /// * Without a checkpointer `work` just runs. In `on_entry` and `on_exit` of a durable run a step is an error.
    ///
    /// The results of a task's steps are held in memory until the task is done, and are stored together with its step. Keep large results
    /// elsewhere, and return a reference to them.
    pub async fn step<T, F>(&self, name: &str, work: F) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce() -> Result<T, NodeError>,
    {
        let Some(home) = self.home()? else { return work().await };
        let key = home.begin(name, None);
        self.once(&home, key, async { work().await }).await
    }

    /// Does a step with arguments: like [`Run::step`], but the key is the name and a hash of `arguments`, in which the order of a map's
    /// keys does not count.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # async fn fetch(_: &str) -> Result<String> { Ok(String::new()) }
    /// async fn read(run: &Run, urls: &[String]) -> Result<Vec<String>> {
    ///     let mut pages = Vec::new();
    ///     for url in urls {
    ///         pages.push(run.step_for("page", url, async |url| fetch(url).await).await?);
    ///     }
    ///     Ok(pages)
    /// }
    /// # let _ = read;
    /// ```
    pub async fn step_for<A, T, F>(&self, name: &str, arguments: &A, work: F) -> Result<T, NodeError>
    where
        A: Serialize + ?Sized,
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&A) -> Result<T, NodeError>,
    {
        let Some(home) = self.home()? else { return work(arguments).await };
        let key = home.begin_for(name, arguments)?;
        self.once(&home, key, async { work(arguments).await }).await
    }

    /// The same of a future.
    #[doc(hidden)]
    pub async fn step_of<A, T>(
        &self,
        name: &str,
        arguments: &A,
        work: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError>
    where
        A: Serialize + ?Sized,
        T: Serialize + DeserializeOwned,
    {
        let Some(home) = self.home()? else { return work.await };
        let key = home.begin_for(name, arguments)?;
        self.once(&home, key, work).await
    }

    /// The recorded result of a call, or else that of this work, recorded.
    async fn once<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        work: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        if let Some(found) = home.find(&key) {
            return self.again(home, &found).await;
        }
        let key = Arc::new(key);
        let (result, questions) = CallScope::step(home.steps.clone(), key.clone(), work).await?;
        self.record(home, Arc::unwrap_or_clone(key), result, questions).await
    }

    /// A result that was recorded before.
    pub(super) async fn again<T: DeserializeOwned>(&self, home: &StepHome, found: &FoundStep) -> Result<T, NodeError> {
        let StepRecord { key, of, value, questions } = &*found.record;
        let wrong = |reason: String| {
            NodeError::permanent(format!(
                "step `{}` of node `{}` has recorded a `{of}`, which is no `{}`: {reason}; give the step another name to have it \
                 done again, or let it return what it recorded",
                key.name,
                self.node(),
                type_name::<T>(),
            ))
        };
        if found.record.is_empty_of_another::<T>() {
            return Err(wrong("it is empty".to_owned()));
        }
        let result = codec::decode(value).map_err(|error| wrong(error.to_string()))?;
        for identity in questions {
            home.place_question(identity);
        }
        // The work inside the step may have used an answer, or a signal, which the step's record does not say.
        if !questions.is_empty() || home.steps.has_signals() {
            self.note_answer();
        }
        if !found.is_stored {
            home.store(found, false, None).await?;
        }
        Ok(result)
    }

    /// Stores a result before anybody sees it.
    pub(super) async fn record<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        result: T,
        questions: Vec<String>,
    ) -> Result<T, NodeError> {
        self.record_until(home, key, result, (questions, None)).await
    }

    /// As [`Self::record`], for a task that waits in place until then.
    pub(super) async fn record_until<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        result: T,
        (questions, until): (Vec<String>, Option<SystemTime>),
    ) -> Result<T, NodeError> {
        if home.store.is_none() {
            return Ok(result);
        }
        let value = codec::encode(&result);
        let value = value.and_then(|value| codec::check_readable::<T>(&value).map(|()| value)).map_err(|error| {
            let (name, node) = (&key.name, self.node());
            NodeError::permanent(format!("the result of step `{name}` of node `{node}` cannot be stored: {error}"))
        })?;
        // From here on, if the attempt is dropped, the next one uses the result.
        let found = home.steps.put(StepRecord::new::<T>(key, value, questions), None);
        home.store(&found, true, until).await?;
        Ok(result)
    }

    /// Where the steps of this task are stored; none if the run is not durable.
    pub(crate) fn step_home(&self) -> Result<Option<StepHome>, NodeError> {
        Ok(self.home()?.filter(|home| home.store.is_some()))
    }

    /// Returns true if the steps of this task are stored.
    #[doc(hidden)]
    pub fn stores_steps(&self) -> Result<bool, NodeError> {
        Ok(self.step_home()?.is_some())
    }

    /// Returns the known steps of this task. Returns none in code that enters or leaves a graph.
    pub(super) fn home(&self) -> Result<Option<StepHome>, NodeError> {
        let shared = &self.shared;
        if self.hook.is_some() {
            if shared.log.is_none() && shared.home.is_none() {
                return Ok(None);
            }
            return Err(NodeError::permanent(
                "code of `on_entry` and `on_exit` cannot take durable steps: let a node do it",
            ));
        }
        let handler = if self.is_handler { "handler|" } else { "" };
        if let Some(outer) = &shared.home {
            let TaskKey { node, step, send } = self.key;
            let mut scope = format!("{}{}:{step}", outer.scope, shared.plan.name(node));
            if let Some(send) = send {
                // Writing to a text cannot fail.
                let _ = write!(scope, ":{send}");
            }
            let _ = write!(scope, "|{handler}");
            let attempts = outer.attempts.iter().copied().chain([self.attempt]).collect();
            return Ok(Some(StepHome { scope, attempts, ..(**outer).clone() }));
        }
        let known = self.resume.as_ref().filter(|resume| !resume.is_afresh).map(|resume| &resume.steps);
        let store = shared.log.as_ref().zip(self.base).map(|(log, checkpoint)| {
            Arc::new(StepStore { log: log.clone(), checkpoint, task: self.task_id(), path: self.place() })
        });
        Ok(Some(StepHome {
            store,
            task_key: self.task_key().into(),
            steps: shared.steps.of(self.key, known),
            scope: handler.to_owned(),
            attempts: vec![self.attempt],
            resume: self.resume.clone(),
        }))
    }

    fn task_key(&self) -> String {
        // A key that is stored with what it names is no use of the configuration.
        let thread = self.shared.config.thread_id().unwrap_or_default();
        format!("{thread}/{}/{}/{}", self.namespace().join("|"), self.superstep(), self.task_id())
    }

    /// Returns a key for an effect that must happen once. It is unique to this task, and stays the same each time the task runs again,
    /// after a failure, a crash or an interrupt, on any machine.
    ///
    /// Inside a [step](Self::step) it is the unique key of that call. Pass it to the service that the step calls. Read it in the step's
    /// own code: a task that the step starts with `tokio::spawn` is outside of the step.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # async fn pay(_: String) -> Result<()> { Ok(()) }
    /// # async fn refund(_: String) -> Result<()> { Ok(()) }
    /// async fn correct(run: &Run) -> Result<()> {
    ///     run.step("refund", async || refund(run.idempotency_key()).await).await?;
    ///     run.step("pay", async || pay(run.idempotency_key()).await).await // with another key
    /// }
    /// # let _ = correct;
    /// ```
    ///
    /// An error handler (`on_error`) has a different key from its node. In a run without a checkpointer a task has a new key in each run.
    pub fn idempotency_key(&self) -> String {
        // It names the thread.
        let _ = self.config();
        let Some(home) = self.home().ok().flatten() else { return self.task_key() };
        let StepHome { task_key, scope, .. } = &home;
        match CallScope::current(&home.steps).and_then(|around| around.step) {
            Some(step) => format!("{task_key}/{}", step.digest()),
            None if scope.is_empty() => task_key.to_string(),
            None => format!("{task_key}/{}", hash(scope).unwrap_or_default()),
        }
    }
}
