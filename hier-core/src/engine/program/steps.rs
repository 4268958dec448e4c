//! Durable steps: parts of a task that are done once. The result of each is stored with the task before the task sees it, and is
//! read from there whenever the task runs again.
//!
//! A step is known by its name and a hash of its arguments. The n-th call with the same key takes the n-th result that was recorded
//! under it: calls with one key cannot be told apart, so that any of their results will do for any of them.

use std::any::type_name;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{Run, TaskKey};
use crate::checkpoint::{CodecError, PendingWrite, SaverError, TaskWrites, codec, slot};
use crate::engine::log::task_log::TaskLog;
use crate::error::{NodeError, NodeErrorKind};
use crate::sync::lock;

/// The name of the entries of steps among what a task has stored.
pub(crate) const STEP: &str = "__step__";

/// `MessagePack`'s nil, behind the byte of the codec.
const NIL: u8 = 0xc0;

/// What tells a step from the others of its task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StepKey {
    /// The task inside a graph without checkpoints that does it, or the handler; empty for the task itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    scope: String,
    name: String,
    /// The hash of the arguments; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<String>,
}

impl StepKey {
    /// A step of this name and with these arguments.
    fn with<A: Serialize + ?Sized>(home: &StepHome, name: &str, arguments: &A) -> Result<Self, NodeError> {
        let arguments = hash(arguments).map_err(|error| {
            let what = format!("the arguments of step `{name}` have no JSON");
            NodeError::permanent(format!("{what}, by which it could be known: {error}"))
        })?;
        Ok(Self { scope: home.scope.clone(), name: name.to_owned(), arguments: Some(arguments) })
    }

    /// What the engine records for itself: its hash is none that arguments have.
    pub(crate) fn own(home: &StepHome, name: &str, what: &str) -> Self {
        Self { scope: home.scope.clone(), name: name.to_owned(), arguments: Some(what.to_owned()) }
    }
}

/// The result of a step, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StepRecord {
    key: StepKey,
    /// The type that the result had, without its modules.
    of: String,
    #[serde(with = "serde_bytes")]
    value: Vec<u8>,
}

/// What is known of the steps of one task.
#[derive(Debug, Default)]
pub(crate) struct StepLog(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    results: Vec<Done>,
    by_key: HashMap<StepKey, Vec<usize>>,
    /// The number of the next slot.
    next: i32,
    /// How often a result was taken.
    taken: u64,
    /// For each scope the attempts in which it was last seen.
    attempts: HashMap<String, Vec<u32>>,
}

#[derive(Debug)]
struct Done {
    record: Arc<StepRecord>,
    slot: i32,
    /// Whether it is known to be stored: a task may have been dropped while it was being stored.
    is_stored: bool,
    /// The letter that it was in the thread's mailbox.
    letter: Option<Uuid>,
    /// When this attempt took it, counted in [`Known::taken`].
    taken: Option<u64>,
}

/// A result, and where it is stored.
pub(crate) struct Found {
    record: Arc<StepRecord>,
    number: usize,
    slot: i32,
    is_stored: bool,
    letter: Option<Uuid>,
}

impl StepLog {
    /// The steps among what a task has stored.
    pub(crate) fn read(writes: &[PendingWrite]) -> Result<Self, CodecError> {
        let mut known = Known::default();
        let mut stored: Vec<&PendingWrite> = writes.iter().filter(|write| &*write.channel == STEP).collect();
        stored.sort_by_key(|write| write.slot);
        for write in stored {
            known.add(Arc::new(codec::decode(&write.value)?), write.slot, true, None);
            known.next = write.slot.wrapping_sub(slot::step(0)).saturating_add(1);
        }
        known.results.iter_mut().for_each(|done| done.taken = None);
        Ok(Self(Mutex::new(known)))
    }

    /// A result for this key that this attempt has not taken yet.
    fn take(&self, key: &StepKey, attempts: &[u32]) -> Option<Found> {
        let mut known = lock(&self.0);
        if known.attempts.get(&key.scope).is_none_or(|seen| seen != attempts) {
            known.attempts.insert(key.scope.clone(), attempts.to_vec());
            known
                .results
                .iter_mut()
                .filter(|done| done.record.key.scope == key.scope)
                .for_each(|done| done.taken = None);
        }
        let number = known.by_key.get(key)?.iter().copied().find(|number| known.results[*number].taken.is_none())?;
        known.taken += 1;
        let now = known.taken;
        let done = &mut known.results[number];
        done.taken = Some(now);
        let Done { slot, is_stored, letter, .. } = *done;
        Some(Found { record: done.record.clone(), number, slot, is_stored, letter })
    }

    /// Takes in a result that has just come.
    fn put(&self, record: StepRecord, letter: Option<Uuid>) -> Found {
        let mut known = lock(&self.0);
        let (record, slot) = (Arc::new(record), slot::step(known.next));
        known.next = known.next.saturating_add(1);
        let number = known.add(record.clone(), slot, false, letter);
        Found { record, number, slot, is_stored: false, letter }
    }

    fn stored(&self, number: usize) {
        lock(&self.0).results[number].is_stored = true;
    }

    fn mark(&self) -> u64 {
        lock(&self.0).taken
    }

    /// Forgets what was taken since.
    fn rewind(&self, mark: u64) {
        let mut known = lock(&self.0);
        let since = known.results.iter_mut().filter(|done| done.taken.is_some_and(|taken| taken > mark));
        since.for_each(|done| done.taken = None);
    }
}

impl Known {
    fn add(&mut self, record: Arc<StepRecord>, slot: i32, is_stored: bool, letter: Option<Uuid>) -> usize {
        self.taken += 1;
        let number = self.results.len();
        self.by_key.entry(record.key.clone()).or_default().push(number);
        self.results.push(Done { record, slot, is_stored, letter, taken: Some(self.taken) });
        number
    }
}

/// The step logs of the tasks of the step that is running.
#[derive(Debug, Default)]
pub(crate) struct StepLogs(Mutex<Vec<(TaskKey, Arc<StepLog>)>>);

impl StepLogs {
    fn of(&self, key: TaskKey, known: Option<&Arc<StepLog>>) -> Arc<StepLog> {
        let mut logs = lock(&self.0);
        logs.retain(|(of, _)| of.step == key.step);
        if let Some((_, log)) = logs.iter().find(|(of, _)| *of == key) {
            return log.clone();
        }
        let log = known.cloned().unwrap_or_default();
        logs.push((key, log.clone()));
        log
    }
}

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
    /// A result for this key that this attempt has not taken yet.
    pub(super) fn take(&self, key: &StepKey) -> Option<Found> {
        self.steps.take(key, &self.attempts)
    }

    /// How many results of the engine's own of this kind there are.
    pub(super) fn calls(&self, what: &str) -> usize {
        let known = lock(&self.steps.0);
        let is_one = |done: &&Done| {
            let key = &done.record.key;
            done.taken.is_some() && key.scope == self.scope && key.arguments.as_deref() == Some(what)
        };
        known.results.iter().filter(is_one).count()
    }

    async fn store(&self, found: &Found) -> Result<(), NodeError> {
        let value = codec::encode(&*found.record)?;
        let writes = vec![PendingWrite { slot: found.slot, channel: STEP.into(), value }];
        let writes = TaskWrites { checkpoint: self.checkpoint, task: self.task, path: self.path.clone(), writes };
        let stored = match found.letter {
            None => self.log.write_now(writes).await,
            Some(letter) => self.log.write_taking(writes, letter).await,
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
        let key = StepKey { scope: home.scope.clone(), name: name.to_owned(), arguments: None };
        match home.take(&key) {
            Some(found) => self.again(&home, &found).await,
            None => self.record(&home, key, work().await?).await,
        }
    }

    /// [`Run::step`] with arguments: the key is the name and what `arguments` is as JSON, the order of an object's fields aside.
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
        let key = StepKey::with(&home, name, arguments)?;
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
        let key = StepKey::with(&home, name, arguments)?;
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
        // Nothing can be read as many things.
        if value.get(1) == Some(&NIL) && *of != short_name::<T>() {
            return Err(wrong("it is empty".to_owned()));
        }
        let result = codec::decode(value).map_err(|error| wrong(error.to_string()))?;
        if !found.is_stored {
            home.store(found).await?;
        }
        Ok(result)
    }

    /// Stores a result before anybody sees it.
    pub(super) async fn record<T: Serialize>(&self, home: &StepHome, key: StepKey, result: T) -> Result<T, NodeError> {
        let value = codec::encode(&result).map_err(|error| {
            let (name, node) = (&key.name, self.node());
            NodeError::permanent(format!("the result of step `{name}` of node `{node}` cannot be stored: {error}"))
        })?;
        // From here on an attempt that is dropped leaves the result to the next.
        let found = home.steps.put(StepRecord { key, of: short_name::<T>(), value }, None);
        home.store(&found).await?;
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
            // In terms of the value, not of the bytes.
            let sent = codec::decode_json(&letter.value).ok().and_then(|sent| serde_json::from_value::<T>(sent).err());
            let error = sent.map_or_else(|| error.to_string(), |sent| sent.to_string());
            let (node, of) = (self.node(), type_name::<T>());
            let (thread, id) = (&home.log.committer.lease.thread, letter.id);
            NodeError::permanent(format!(
                "the signal `{name}` that node `{node}` waits for is no `{of}`: {error}; it stays in the mailbox of the thread: remove it \
                 with `graph.discard(\"{thread}\", id)` or `hier discard {thread} {id}`, or let the node take its type"
            ))
        })?;
        let record = StepRecord { key, of: short_name::<T>(), value: letter.value };
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

/// A type's name without its modules, which may change without the type.
fn short_name<T>() -> String {
    let name = type_name::<T>();
    let mut short = String::with_capacity(name.len());
    let mut start = 0;
    for (at, letter) in name.char_indices().filter(|(_, letter)| !letter.is_alphanumeric() && *letter != '_') {
        let end = at + letter.len_utf8();
        if letter == ':' {
            start = end;
        } else {
            short.push_str(&name[start..end]);
            start = end;
        }
    }
    short.push_str(&name[start..]);
    short
}

/// A hash of what a value is as JSON, which does not depend on the order of an object's fields.
pub(crate) fn hash<A: Serialize + ?Sized>(value: &A) -> Result<String, serde_json::Error> {
    fn canonical(value: &Value, text: &mut String) {
        match value {
            Value::Array(items) => {
                text.push('[');
                for item in items {
                    canonical(item, text);
                    text.push(',');
                }
                text.push(']');
            }
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| *name);
                text.push('{');
                for (name, field) in fields {
                    let _ = write!(text, "{}:", Value::from(name.as_str()));
                    canonical(field, text);
                    text.push(',');
                }
                text.push('}');
            }
            plain => {
                let _ = write!(text, "{plain}");
            }
        }
    }
    let mut text = String::new();
    canonical(&serde_json::to_value(value)?, &mut text);
    Ok(format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes())))
}
