//! Durable steps: parts of a task that run once. A task sees a result only after the result is stored. When the task
//! runs again, it reads the stored result.

use std::any::type_name;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::numbers::CallScope;
use super::step_home::StepStore;
use super::step_log::{FoundStep, StepRecord};
use super::{Run, StepHome, StepKey, TaskKey, hash};
use crate::checkpoint::codec;
use crate::error::NodeError;

impl<C> Run<C> {
    /// Runs `work` once and returns its result. The engine stores the result before this call returns. If the task runs
    /// again, after a retry, a timeout, an interrupt or a crash, the call returns the stored result and does not run
    /// `work`.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # use hier_core::checkpoint::MemorySaver;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Order { receipt: String }
    /// # async fn charge() -> hier_core::Result<String> { Ok("r-17".to_owned()) }
    /// # graph! { Shop<Order> = Graph { nodes: [pay], edges: [START >> pay >> END] } }
    /// async fn pay(run: &Run) -> hier_core::Result<OrderUpdate> {
    ///     let receipt = run.step("charge", async || charge().await).await?;
    ///     let _: bool = run.interrupt(&"Send the order?").await?; // the node runs again, and does not charge again
    ///     Ok(Order::update().receipt(receipt))
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// # let shop = Shop::compile().checkpointer(MemorySaver::new());
    /// # let asked = shop.invoke(Order::update()).thread("t").await?;
    /// # assert!(!asked.is_finished());
    /// # assert_eq!(shop.invoke(Command::resume(true)).thread("t").await?.state().receipt, "r-17");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// * **Crashes.** If the process is killed after `work` has had its effect but before the result is stored, `work`
    ///   runs again. For this case, pass [`Run::idempotency_key`] to services that accept such a key. Inside `work`,
    ///   the key is unique to this step.
    /// * **Identity.** The name identifies a step within its task, so you can change other parts of the program between
    ///   two runs. If a task calls several steps with the same name, the engine numbers them in the order in which they
    ///   start, and the n-th call receives the n-th result. If this order may change, as with `select!` without
    ///   `biased`, use different names, or [`Run::step_for`].
    /// * **Memory.** Results also stay in memory while the task runs. Store a large result elsewhere and return a
    ///   reference to it.
    /// * **Durability.** With [`Durability::Exit`](crate::Durability::Exit), results are stored only when the run ends.
    ///   Without a checkpointer, nothing is stored, and `work` runs each time. In a subgraph with `checkpoints: none`,
    ///   results are stored with the task of the nearest outer graph that has checkpoints.
    ///
    /// Cancel safety: dropping the future also drops `work`. A later call with the same name is another step.
    ///
    /// # Errors
    ///
    /// Returns the error of `work`. The engine does not store errors: if the task runs again, `work` runs again. To
    /// retry an operation, write the loop inside `work`. A loop around the step makes a new step in each round.
    ///
    /// Also fails if the stored result is not a `T`, and if a hook (`on_entry`, `on_exit`) of a run with a checkpointer
    /// calls this method.
    pub async fn step<T, F>(&self, name: &str, work: F) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce() -> Result<T, NodeError>,
    {
        let Some(home) = self.home()? else { return work().await };
        let key = home.begin(name, None);
        self.once(&home, key, async { work().await }).await
    }

    /// Runs a step like [`Run::step`], but the name together with a hash of `arguments` identifies the step. Use this
    /// method if the order of calls with the same name may change. The order of the keys of a map does not change the
    /// hash.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # async fn fetch(_: &str) -> hier_core::Result<String> { Ok(String::new()) }
    /// async fn read(run: &Run, urls: &[String]) -> hier_core::Result<Vec<String>> {
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
        self.step_of(name, arguments, async { work(arguments).await }).await
    }

    /// Runs a step like [`Self::step_for`], but takes a future instead of a function.
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

    /// Returns the recorded result of a call. Otherwise runs the work and records its result.
    async fn once<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        work: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        if let Some(found) = home.find(&key) {
            return self.recorded_result(home, &found).await;
        }
        let key = Arc::new(key);
        let (result, questions) = CallScope::run_step(home.steps.clone(), key.clone(), work).await?;
        self.record(home, Arc::unwrap_or_clone(key), result, questions).await
    }

    pub(super) async fn recorded_result<T: DeserializeOwned>(
        &self,
        home: &StepHome,
        found: &FoundStep,
    ) -> Result<T, NodeError> {
        let StepRecord { key, of, value, questions } = &*found.record;
        let wrong = |reason: String| {
            NodeError::permanent(format!(
                "step `{}` of node `{}` has recorded a `{of}`, which is not a `{}`: {reason}; rename the step to run it \
                 again, or return the recorded type",
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
            home.place_question(identity, true);
        }
        // The code of the step may have used an answer or a signal.
        if !questions.is_empty() || home.steps.has_signals() {
            self.note_answer();
        }
        if !found.is_stored {
            home.store(found, false, None).await?;
        }
        Ok(result)
    }

    /// Stores a result, and then returns it.
    pub(super) async fn record<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        result: T,
        questions: Vec<String>,
    ) -> Result<T, NodeError> {
        self.record_until(home, key, result, questions, None).await
    }

    /// Like [`Self::record`], for a task that then waits in place until this time.
    pub(super) async fn record_until<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        result: T,
        questions: Vec<String>,
        until: Option<SystemTime>,
    ) -> Result<T, NodeError> {
        if home.store.is_none() {
            return Ok(result);
        }
        let value = codec::encode(&result);
        let value = value.and_then(|value| codec::check_readable::<T>(&value).map(|()| value)).map_err(|error| {
            let (name, node) = (&key.name, self.node());
            NodeError::permanent(format!("the result of step `{name}` of node `{node}` cannot be stored: {error}"))
        })?;
        // From here on, the result is in the log. If the attempt is dropped, the next attempt uses the result.
        let found = home.steps.put(StepRecord::new::<T>(key, value, questions), None);
        home.store(&found, true, until).await?;
        Ok(result)
    }

    /// Returns the steps of this task with their storage. Returns `None` if steps are not stored.
    pub(crate) fn step_home(&self) -> Result<Option<StepHome>, NodeError> {
        Ok(self.home()?.filter(|home| home.store.is_some()))
    }

    /// Returns true if the engine stores the results of steps in this task.
    #[doc(hidden)]
    pub fn stores_steps(&self) -> Result<bool, NodeError> {
        Ok(self.step_home()?.is_some())
    }

    /// Returns the known steps of this task. In `on_entry` and `on_exit`, returns `None` if the run has no
    /// checkpointer, and otherwise fails.
    pub(super) fn home(&self) -> Result<Option<StepHome>, NodeError> {
        let shared = &self.shared;
        if self.hook.is_some() {
            if shared.log.is_none() && shared.home.is_none() {
                return Ok(None);
            }
            return Err(NodeError::permanent(
                "code of `on_entry` and `on_exit` cannot run durable steps: move them to a node",
            ));
        }
        let handler = if self.is_handler { "handler|" } else { "" };
        if let Some(outer) = &shared.home {
            let TaskKey { node, step, send } = self.key;
            let mut scope = format!("{}{}:{step}", outer.scope, shared.plan.name(node));
            if let Some(send) = send {
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
            steps: shared.steps.log_of(self.key, known),
            scope: handler.to_owned(),
            attempts: vec![self.attempt],
            resume: self.resume.clone(),
        }))
    }

    fn task_key(&self) -> String {
        // A stored key may contain the thread without depending on the configuration, so the use is not recorded.
        let thread = self.shared.config.thread_id().unwrap_or_default();
        format!("{thread}/{}/{}/{}", self.namespace().join("|"), self.superstep(), self.task_id())
    }

    /// Returns a key for an effect outside the program that must happen only once, such as a payment. Pass it to a
    /// service that ignores a second request with the same key. The key is unique to this task, and stays the same when
    /// the task runs again after a failure, a crash or an interrupt, on any machine.
    ///
    /// Inside a [step](Self::step), the key is unique to that step. Call this method in the step's own code: code that
    /// the step passes to `tokio::spawn` is outside the step and gets the key of the task.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # async fn pay(_: String) -> hier_core::Result<()> { Ok(()) }
    /// # async fn refund(_: String) -> hier_core::Result<()> { Ok(()) }
    /// async fn correct(run: &Run) -> hier_core::Result<()> {
    ///     run.step("refund", async || refund(run.idempotency_key()).await).await?;
    ///     run.step("pay", async || pay(run.idempotency_key()).await).await // with another key
    /// }
    /// # let _ = correct;
    /// ```
    ///
    /// The `on_error` handler of a node has a different key than the node. Without a checkpointer, keys differ per run.
    pub fn idempotency_key(&self) -> String {
        // The key contains the thread, so it depends on the configuration.
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
