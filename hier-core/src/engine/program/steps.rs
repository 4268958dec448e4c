//! Durable steps: parts of a task that are done once. The result of each is stored with the task before the task sees it, and is
//! read from there whenever the task runs again.

use std::any::type_name;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::step_log::{Found, StepRecord};
use super::{Run, STEP, StepKey, StepLog, TaskKey, hash};
use crate::checkpoint::{PendingWrite, SaverError, TaskWrites, codec};
use crate::engine::log::task_log::TaskLog;
use crate::error::{NodeError, NodeErrorKind};

/// Where the steps of a task are stored: with the task, or with the nearest one around it whose graph has checkpoints.
#[derive(Clone)]
pub(crate) struct StepHome {
    log: Arc<TaskLog>,
    checkpoint: Uuid,
    task: Uuid,
    path: Arc<str>,
    steps: Arc<StepLog>,
    scope: String,
    /// Which attempt this is, of the task and of those around it up to the one with which steps are stored.
    attempts: Vec<u32>,
}

impl StepHome {
    /// A step of this name.
    fn key(&self, name: &str) -> StepKey {
        StepKey { scope: self.scope.clone(), name: name.to_owned(), arguments: None }
    }

    /// A step of this name and with these arguments.
    fn key_for<A: Serialize + ?Sized>(&self, name: &str, arguments: &A) -> Result<StepKey, NodeError> {
        let arguments = hash(arguments).map_err(|error| {
            NodeError::permanent(format!("the arguments of step `{name}` cannot be serialized: {error}"))
        })?;
        Ok(StepKey { arguments: Some(arguments), ..self.key(name) })
    }

    /// What the engine records for itself: its hash is none that arguments have.
    pub(super) fn own_key(&self, name: &str, what: &str) -> StepKey {
        StepKey { arguments: Some(what.to_owned()), ..self.key(name) }
    }

    /// A result for this key that this attempt has not taken yet.
    pub(super) fn take(&self, key: &StepKey) -> Option<Found> {
        self.steps.take(key, &self.attempts)
    }

    /// How many results of the engine's own of this kind there are.
    pub(super) fn calls(&self, what: &str) -> usize {
        self.steps.calls(&self.scope, what)
    }

    async fn store(&self, found: &Found) -> Result<(), NodeError> {
        self.store_until(found, None).await
    }

    async fn store_until(&self, found: &Found, until: Option<SystemTime>) -> Result<(), NodeError> {
        let value = codec::encode_record(&*found.record)?;
        let writes = vec![PendingWrite { slot: found.slot, channel: STEP.into(), value }];
        let writes = TaskWrites { checkpoint: self.checkpoint, task: self.task, path: self.path.clone(), writes };
        let stored = match (found.letter, until) {
            (None, None) => self.log.write_now(writes).await,
            (None, Some(until)) => self.log.write_until(writes, until).await,
            (Some(letter), _) => self.log.write_taking(writes, letter).await,
        };
        stored.map_err(unsaved)?;
        self.steps.stored(found.number);
        Ok(())
    }
}

fn unsaved(error: SaverError) -> NodeError {
    NodeError::from_kind(NodeErrorKind::Saver(error), false)
}

impl<C> Run<C> {
    /// Does something once, whatever happens around it: the result is stored with the task before this returns, and when the task
    /// runs again (after a retry, a timeout, an interrupt, a kill) it is returned without running `work`.
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
    /// * *Once* is said of what is recorded. A process that is killed after `work` has had its effect and before the result is
    ///   stored does it again: give [`Run::idempotency_key`] to what can use one.
    /// * An error is not recorded: the step is done again.
    /// * The name is the key, so it outlives a change of the program around it. A second call with the same name in the same task is
    ///   a step of its own: the n-th call gets the n-th result. With arguments use [`Run::step_for`].
    /// * A result that is stored and is no `T` (any more) is an error that says so.
    /// * In a graph without checkpoints (`checkpoints: none`) the result is stored with the nearest task around it that has some; what
    ///   is not a step runs again with the whole call.
    /// * With [`Durability::Exit`](crate::Durability::Exit) the result is stored when the run ends, as everything else.
    /// * Without a checkpointer it just runs. In `on_entry` and `on_exit` of a durable run it is an error.
    ///
    /// The results of a task's steps are held in memory until the task is done, and are part of what is stored for its step: keep
    /// large ones elsewhere, and return where.
    pub async fn step<T, F>(&self, name: &str, work: F) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce() -> Result<T, NodeError>,
    {
        let Some(home) = self.step_home()? else { return work().await };
        let key = home.key(name);
        match home.take(&key) {
            Some(found) => self.again(&home, &found).await,
            None => self.record(&home, key, work().await?).await,
        }
    }

    /// [`Run::step`] with arguments: the key is the name and a hash of `arguments`, in which the order of a map's keys does not count.
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
        let Some(home) = self.step_home()? else { return work(arguments).await };
        let key = home.key_for(name, arguments)?;
        match home.take(&key) {
            Some(found) => self.again(&home, &found).await,
            None => self.record(&home, key, work(arguments).await?).await,
        }
    }

    /// The same of a future.
    pub(crate) async fn step_of<A, T>(
        &self,
        name: &str,
        arguments: &A,
        work: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError>
    where
        A: Serialize + ?Sized,
        T: Serialize + DeserializeOwned,
    {
        let Some(home) = self.step_home()? else { return work.await };
        let key = home.key_for(name, arguments)?;
        match home.take(&key) {
            Some(found) => self.again(&home, &found).await,
            None => self.record(&home, key, work.await?).await,
        }
    }

    /// A result that was recorded before.
    pub(super) async fn again<T: DeserializeOwned>(&self, home: &StepHome, found: &Found) -> Result<T, NodeError> {
        let StepRecord { key, of, value } = &*found.record;
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
        if !found.is_stored {
            home.store(found).await?;
        }
        Ok(result)
    }

    /// Stores a result before anybody sees it.
    pub(super) async fn record<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        result: T,
    ) -> Result<T, NodeError> {
        self.record_until(home, key, result, None).await
    }

    /// As [`Self::record`], for a task that waits in place until then.
    pub(super) async fn record_until<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        result: T,
        until: Option<SystemTime>,
    ) -> Result<T, NodeError> {
        let value = codec::encode(&result);
        let value = value.and_then(|value| codec::check_readable::<T>(&value).map(|()| value)).map_err(|error| {
            let (name, node) = (&key.name, self.node());
            NodeError::permanent(format!("the result of step `{name}` of node `{node}` cannot be stored: {error}"))
        })?;
        // From here on an attempt that is dropped leaves the result to the next.
        let found = home.steps.put(StepRecord::new::<T>(key, value), None);
        home.store_until(&found, until).await?;
        Ok(result)
    }

    /// Takes the first signal of this name out of the thread's mailbox.
    pub(super) async fn take_signal<T: Serialize + DeserializeOwned>(
        &self,
        home: &StepHome,
        key: StepKey,
        name: &str,
    ) -> Result<Option<T>, NodeError> {
        let committer = &home.log.committer;
        // Two tasks of one run do not take the same.
        let _turn = committer.mailbox.lock().await;
        let waiting = committer.mail().await.map_err(unsaved)?;
        let Some(letter) = waiting.into_iter().find(|it| it.letter.signal.as_deref() == Some(name)) else {
            return Ok(None);
        };
        let letter = letter.letter;
        let value = codec::decode(&letter.value).map_err(|error| {
            let (node, of) = (self.node(), type_name::<T>());
            let (thread, id) = (&home.log.committer.lease.thread, letter.id);
            NodeError::permanent(format!(
                "the signal `{name}` that node `{node}` waits for is no `{of}`: {error}; it stays in the mailbox of the thread: remove it \
                 with `graph.discard(\"{thread}\", id)` or `hier discard {thread} {id}`, or let the node take its type"
            ))
        })?;
        let record = StepRecord::new::<T>(key, letter.value);
        let found = home.steps.put(record, Some(letter.id));
        home.store(&found).await?;
        self.note_answer();
        Ok(Some(value))
    }

    /// Where the steps of this task are stored; none if the run is not durable.
    pub(crate) fn step_home(&self) -> Result<Option<StepHome>, NodeError> {
        let shared = &self.shared;
        if shared.log.is_none() && shared.home.is_none() {
            return Ok(None);
        }
        if self.hook.is_some() {
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
        let (Some(log), Some(checkpoint)) = (&shared.log, self.base) else { return Ok(None) };
        let known = self.inbox.as_ref().filter(|inbox| !inbox.is_afresh).map(|inbox| &inbox.steps);
        Ok(Some(StepHome {
            log: log.clone(),
            checkpoint,
            task: self.task_id(),
            path: self.place(),
            steps: shared.steps.of(self.key, known),
            scope: handler.to_owned(),
            attempts: vec![self.attempt],
        }))
    }

    /// A point to which [`Self::rewind_steps`] goes back.
    pub(crate) fn mark_steps(&self) -> Option<(Arc<StepLog>, u64)> {
        let home = self.step_home().ok()??;
        let mark = home.steps.mark();
        Some((home.steps, mark))
    }

    /// What is done since then is done again: with the results that it had.
    pub(crate) fn rewind_steps(mark: Option<&(Arc<StepLog>, u64)>) {
        if let Some((steps, mark)) = mark {
            steps.rewind(*mark);
        }
    }
}
