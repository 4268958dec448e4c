//! Crons: runs that are added on a schedule.
//!
//! [`Crons::fire`] adds the run that is due. The caller computes the next time from the schedule and passes it as
//! [`Cron::next`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::RunStore;
use super::counted::{count_of, create_counted, delete_counted};
use super::document::Document;
use super::documents::{readable, readable_due};
use super::error::RunsError;
use super::metadata::contains;
use super::request::Request;
use super::run::{MultitaskStrategy, NewRun, Run};
use super::thread::{NewThread, ThreadIs, ThreadRow};
use hier_checkpoint::checkpoint::SaverError;

const KIND: &str = "cron";

/// A cron, which adds runs according to a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cron {
    /// The id.
    pub id: String,
    /// The fixed thread of the runs. If `None`, the cron creates a thread for each run.
    pub thread: Option<String>,
    /// The creation time of the thread in `thread`, or `None` without a fixed thread. If this thread is deleted and
    /// another thread gets its id, the cron adds no runs to the other thread.
    #[serde(default)]
    pub thread_created: Option<SystemTime>,
    /// The name of the graph.
    pub graph: String,
    /// The id of the assistant, if the cron was created with one.
    pub assistant: Option<String>,
    /// The creation time of the assistant in `assistant`. If this assistant is deleted and another one gets its id, the
    /// cron does not use the other one. `None` accepts any assistant with the id.
    #[serde(default)]
    pub assistant_created: Option<SystemTime>,
    /// The schedule as a cron expression.
    pub schedule: String,
    /// The time zone of the schedule. `None` means UTC.
    pub timezone: Option<String>,
    /// The request of each run.
    pub request: Request,
    /// The metadata from callers.
    pub metadata: Map<String, Value>,
    /// False if the cron is paused.
    pub enabled: bool,
    /// The time after which the cron adds no runs. `None` means that the cron has no end.
    pub ends: Option<SystemTime>,
    /// True if the thread of each run is deleted soon after the run has ended. Has no effect on a cron with a fixed
    /// thread.
    pub temporary: bool,
    /// The time at which the next run is due. If `None`, the cron adds no further runs.
    pub next: Option<SystemTime>,
    /// The time of creation.
    pub created: SystemTime,
    /// The time of the last change.
    pub updated: SystemTime,
    /// The user who created the cron, for [`Crons::count_of`].
    #[serde(default)]
    pub user: String,
    /// The body of the request with which a client created the cron, with all later changes. The server returns this body
    /// to clients, without secret channels. `None` if no client request created the cron.
    #[serde(default)]
    pub payload: Option<Value>,
    /// The rule that applies when the cron adds a run to a thread with an earlier run that has not ended.
    #[serde(default)]
    pub multitask_strategy: MultitaskStrategy,
    /// The metadata of the threads that the cron creates for its runs. For a cron with a fixed thread, this metadata is
    /// a condition. An entry that the thread contains when the cron is created must still be in the thread's metadata
    /// when the cron adds a run. Otherwise the cron is paused.
    #[serde(default)]
    pub thread_metadata: Map<String, Value>,
    /// The number of times that the cron was stored. [`Crons::replace`] stores a changed cron only if this is the
    /// latest revision.
    #[serde(skip)]
    pub revision: u64,
}

/// A cron to create.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NewCron {
    /// The cron. [`Crons::create`] sets its `thread_created` and its revision.
    pub cron: Cron,
    /// A condition on the fixed thread. If the thread does not meet the condition, creating the cron fails with
    /// [`RunsError::NoThread`].
    pub on: ThreadIs,
}

impl NewCron {
    /// Creates a cron of a graph with a schedule. `next` is the time of the first run. If it is `None`, the cron adds
    /// no runs.
    pub fn new(
        id: impl Into<String>,
        graph: impl Into<String>,
        schedule: impl Into<String>,
        next: Option<SystemTime>,
        request: Request,
    ) -> Self {
        let now = SystemTime::now();
        Self {
            cron: Cron {
                id: id.into(),
                thread: None,
                thread_created: None,
                graph: graph.into(),
                assistant: None,
                assistant_created: None,
                schedule: schedule.into(),
                timezone: None,
                request,
                metadata: Map::new(),
                enabled: true,
                ends: None,
                temporary: false,
                next,
                created: now,
                updated: now,
                user: String::new(),
                payload: None,
                multitask_strategy: MultitaskStrategy::default(),
                thread_metadata: Map::new(),
                revision: 0,
            },
            on: ThreadIs::default(),
        }
    }
}

/// A query for crons. A field that is `None` or empty does not restrict the result.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CronQuery {
    /// The id of the assistant.
    pub assistant: Option<String>,
    /// The id of the thread.
    pub thread: Option<String>,
    /// `true` selects only enabled crons, and `false` selects only paused crons.
    pub enabled: Option<bool>,
    /// Metadata that a cron must contain.
    pub metadata: Map<String, Value>,
}

impl CronQuery {
    /// Returns true if the query matches the cron.
    pub fn wants(&self, cron: &Cron) -> bool {
        self.assistant.is_none_or_is(cron.assistant.as_ref())
            && self.thread.is_none_or_is(cron.thread.as_ref())
            && self.enabled.is_none_or(|enabled| enabled == cron.enabled)
            && self.metadata.iter().all(|(key, want)| cron.metadata.get(key).is_some_and(|have| contains(have, want)))
    }
}

trait Wanted {
    fn is_none_or_is(&self, found: Option<&String>) -> bool;
}

impl Wanted for Option<String> {
    fn is_none_or_is(&self, found: Option<&String>) -> bool {
        self.is_none() || self.as_ref() == found
    }
}

impl Cron {
    /// Returns the id of the run that is due at this time. The id depends only on the cron and the time. If two
    /// processes try to add the run, they use the same id, so only one of them succeeds.
    pub fn run_id(&self, due: SystemTime) -> Uuid {
        let time = due.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let text = format!("cron {} {} {}", self.id, time.as_secs(), time.subsec_nanos());
        uuid::Builder::from_random_bytes(xxhash_rust::xxh3::xxh3_128(text.as_bytes()).to_be_bytes()).into_uuid()
    }

    /// Returns the run that is due at this time. It has the metadata of the cron, and the id of the cron as `cron_id`.
    fn run(&self, due: SystemTime) -> NewRun {
        let id = self.run_id(due);
        let thread = self.thread.clone().unwrap_or_else(|| id.to_string());
        let mut new = NewRun::new(thread.clone(), self.graph.clone(), self.request.clone());
        if self.thread.is_none() {
            new.new_thread = Some(NewThread { metadata: self.thread_metadata.clone(), ..NewThread::new(thread) });
            new.temporary = self.temporary;
        } else {
            new.on = self.thread_created.map(|created| {
                let metadata = self.thread_metadata.clone();
                ThreadIs { created: Some(created), metadata }
            });
        }
        new.id = Some(id);
        new.assistant.clone_from(&self.assistant);
        new.metadata.clone_from(&self.metadata);
        new.metadata.insert("cron_id".to_owned(), self.id.clone().into());
        new.multitask_strategy = self.multitask_strategy;
        new
    }

    /// Binds the cron to a thread. The id of the thread must be in [`Self::thread`]. Removes the entries of
    /// [`Self::thread_metadata`] that the thread does not contain. The cron adds runs as long as the thread exists and
    /// contains the other entries.
    pub fn bind(&mut self, thread: &ThreadRow) {
        self.thread_created = Some(thread.created);
        self.thread_metadata.retain(|key, want| thread.metadata.get(key).is_some_and(|have| contains(have, want)));
    }

    /// Returns true if a run is due.
    pub fn is_due(&self, now: SystemTime) -> bool {
        self.enabled && self.next.is_some_and(|next| next <= now && self.ends.is_none_or(|ends| next <= ends))
    }
}

/// The crons in a run store, with the methods to read and change them.
#[derive(Clone, Copy)]
pub struct Crons<'a>(&'a dyn RunStore);

impl<'a> Crons<'a> {
    /// Creates access to the crons of a store. Does not read from the store.
    pub const fn of(store: &'a dyn RunStore) -> Self {
        Self(store)
    }

    /// Creates a cron. If the cron has a fixed thread, this thread must exist. If this thread is later deleted and
    /// another thread gets its id, the cron adds no runs to the other thread.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::Exists`] if a cron with this id exists, and with [`RunsError::NoThread`] if the fixed
    /// thread does not exist.
    pub async fn create(self, new: NewCron) -> Result<Cron, RunsError> {
        let mut cron = new.cron;
        if let Some(thread) = &cron.thread {
            let found = self.0.thread(thread).await?;
            let found = found.ok_or_else(|| RunsError::NoThread { thread: thread.clone() })?;
            new.on.check(&found)?;
            cron.bind(&found);
        }
        if !create_counted(self.0, document(&cron)?, &cron.user).await? {
            return Err(RunsError::Exists { kind: KIND, id: cron.id });
        }
        Ok(Cron { revision: 1, ..cron })
    }

    /// Returns the number of a user's crons.
    pub async fn count_of(self, user: &str) -> Result<usize, RunsError> {
        count_of(self.0, KIND, user).await
    }

    /// Returns a cron, or `None` if it does not exist.
    pub async fn get(self, id: &str) -> Result<Option<Cron>, RunsError> {
        self.0.document(KIND, id).await?.map(|document| decode(&document)).transpose()
    }

    /// Adds the run that is due and stores the time of the next run, in one transaction. If several processes call this
    /// method for the same run, only one of them adds the run.
    ///
    /// If several times of the schedule have passed, the call adds only one run. As `next`, pass the first time of the
    /// schedule after `now`. If the fixed thread of the cron was deleted or no longer contains
    /// [`Cron::thread_metadata`], the call pauses the cron instead, even if a new thread has the same id.
    ///
    /// Returns `None` if the cron is not due or was paused by this call, or if another process has added the run. Also
    /// returns `None` if the thread is busy and the strategy of the cron is [`MultitaskStrategy::Reject`]. The cron
    /// then skips this run.
    pub async fn fire(self, cron: &Cron, now: SystemTime, next: Option<SystemTime>) -> Result<Option<Run>, RunsError> {
        let Some(due) = cron.next.filter(|_| cron.is_due(now)) else { return Ok(None) };
        let fired = Cron { next, updated: now, ..cron.clone() };
        let mut new = cron.run(due);
        new.document = Some(document(&fired)?.revision(cron.revision));
        match self.0.create_run(new).await {
            Ok(run) => Ok(Some(run)),
            Err(RunsError::Stale { .. }) => Ok(None),
            // The thread is busy, or an earlier call has added the run and its answer was lost.
            Err(RunsError::Busy { .. } | RunsError::Exists { .. }) => self.replace(&fired).await.map(|_| None),
            Err(error @ RunsError::NoThread { .. }) => {
                tracing::warn!(cron = cron.id, %error, "a cron is disabled");
                self.replace(&Cron { enabled: false, ..fired }).await.map(|_| None)
            }
            // Such a run cannot be added. The cron must not stay due, because it would delay other crons.
            Err(
                error
                @ (RunsError::Invalid(_) | RunsError::QueueFull { .. } | RunsError::Saver(SaverError::Invalid(_))),
            ) => {
                self.replace(&fired).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Stores a changed cron. Returns false and stores nothing if the stored cron has another revision, because another
    /// caller has changed it. In this case, read the cron again and repeat the change.
    pub async fn replace(self, cron: &Cron) -> Result<bool, RunsError> {
        let cron = Cron { updated: SystemTime::now(), ..cron.clone() };
        self.0.put_document(document(&cron)?, Some(cron.revision)).await
    }

    /// Deletes a cron. Returns false if it does not exist.
    pub async fn delete(self, id: &str) -> Result<bool, RunsError> {
        delete_counted(self.0, KIND, id).await
    }

    /// Returns the crons that match a query, newest first. Logs and skips crons that it cannot read.
    pub async fn search(self, query: &CronQuery) -> Result<Vec<Cron>, RunsError> {
        let crons = readable(self.0.documents(KIND).await?, decode);
        let mut found: Vec<Cron> = crons.filter(|cron| query.wants(cron)).collect();
        found.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        Ok(found)
    }

    /// Returns crons with a run that is due. Each call returns a limited number of crons. If the method cannot read a
    /// cron, it logs a warning and skips this cron for a minute.
    pub async fn due(self, now: SystemTime) -> Result<Vec<Cron>, RunsError> {
        let mut due = readable_due(self.0, KIND, now, decode).await?;
        due.retain(|cron| cron.is_due(now));
        Ok(due)
    }
}

impl std::fmt::Debug for Crons<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Crons")
    }
}

fn decode(document: &Document) -> Result<Cron, RunsError> {
    let cron: Cron = serde_json::from_value(document.value.clone())
        .map_err(|error| RunsError::Invalid(format!("the stored cron `{}` cannot be read: {error}", document.id)))?;
    Ok(Cron { revision: document.revision, ..cron })
}

/// Converts a cron to its document, which is due when the next run of the cron is due.
fn document(cron: &Cron) -> Result<Document, RunsError> {
    let value =
        serde_json::to_value(cron).map_err(|error| RunsError::Invalid(format!("a cron cannot be stored: {error}")))?;
    let ends = |next: &SystemTime| cron.ends.is_none_or(|ends| *next <= ends);
    Ok(Document::new(KIND, &cron.id, value).due(cron.next.filter(ends).filter(|_| cron.enabled)))
}
