//! Assistants: a graph with a configuration, under a name, with versions.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RunStore;
use super::counted::{count_of, create_counted, delete_counted};
use super::document::Document;
use super::documents::readable;
use super::error::RunsError;
use super::metadata::contains;

const KIND: &str = "assistant";
const ATTEMPTS: usize = 16;
/// The maximum size of a version, in bytes of JSON.
const MAX_BYTES: usize = 256 << 10;
/// The maximum size of all versions of an assistant, in bytes of JSON.
const MAX_STORED_BYTES: usize = 1 << 20;
/// The maximum number of versions of an assistant.
const MAX_VERSIONS: usize = 100;

/// One version of an assistant. An assistant is a graph with a name, a configuration and a context for its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Assistant {
    /// The id.
    pub id: String,
    /// The name of the graph.
    pub graph: String,
    /// The default configuration of the assistant's runs. For each run, the server merges the configuration in the
    /// request into this default.
    pub config: Map<String, Value>,
    /// The context for runs that do not set their own context.
    pub context: Value,
    /// The metadata from callers.
    pub metadata: Map<String, Value>,
    /// The name of the assistant.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The number of the version, from 1.
    pub version: u64,
    /// The time at which the assistant was created.
    pub created: SystemTime,
    /// The time at which this version was created.
    pub updated: SystemTime,
}

/// A new assistant.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NewAssistant {
    /// The id.
    pub id: String,
    /// The name of the graph.
    pub graph: String,
    /// The default configuration of the assistant's runs. For each run, the server merges the configuration in the
    /// request into this default.
    pub config: Map<String, Value>,
    /// The context for runs that do not set their own context.
    pub context: Value,
    /// The metadata.
    pub metadata: Map<String, Value>,
    /// The name of the assistant. Defaults to the name of the graph.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The user who creates the assistant, for [`Assistants::count_of`].
    pub user: String,
}

impl NewAssistant {
    /// Creates an assistant of a graph.
    pub fn new(id: impl Into<String>, graph: impl Into<String>) -> Self {
        Self { id: id.into(), graph: graph.into(), ..Self::default() }
    }
}

/// The changes in a new version of an assistant. `None` in a field keeps the value of the latest version.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AssistantPatch {
    /// The name of the graph.
    pub graph: Option<String>,
    /// The default configuration of the assistant's runs. For each run, the server merges the configuration in the
    /// request into this default.
    pub config: Option<Map<String, Value>>,
    /// The context for runs that do not set their own context.
    pub context: Option<Value>,
    /// The metadata to add. Existing keys are replaced.
    pub metadata: Map<String, Value>,
    /// The name of the assistant.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
}

/// A query for assistants. A field that is `None` or empty does not restrict the result.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AssistantQuery {
    /// The name of the assistant's graph.
    pub graph: Option<String>,
    /// A string that the name of the assistant must contain. The comparison ignores upper and lower case.
    pub name: Option<String>,
    /// Metadata that an assistant must contain.
    pub metadata: Map<String, Value>,
}

impl AssistantQuery {
    /// Returns true if the query matches the assistant.
    pub fn wants(&self, assistant: &Assistant) -> bool {
        let has = |(key, want): (&String, &Value)| assistant.metadata.get(key).is_some_and(|have| contains(have, want));
        let named = |name: &String| assistant.name.to_lowercase().contains(&name.to_lowercase());
        self.graph.as_ref().is_none_or(|graph| *graph == assistant.graph)
            && self.name.as_ref().is_none_or(named)
            && self.metadata.iter().all(has)
    }
}

/// The assistants in a run store, with the methods to read and change them.
#[derive(Clone, Copy)]
pub struct Assistants<'a>(&'a dyn RunStore);

#[derive(Serialize, Deserialize)]
struct StoredAssistant {
    latest: u64,
    versions: Vec<Assistant>,
    /// The user who created the assistant.
    #[serde(default)]
    user: String,
}

impl StoredAssistant {
    fn latest(&self) -> Option<&Assistant> {
        self.versions.iter().find(|version| version.version == self.latest)
    }

    /// Adds a version and makes it the latest. Deletes the oldest versions if there are too many, or if they take too
    /// much space.
    fn push(&mut self, version: Assistant) -> Result<(), RunsError> {
        let bytes = bytes(&version);
        if bytes > MAX_BYTES {
            return Err(RunsError::Invalid(format!(
                "the assistant takes {bytes} bytes of JSON, more than the limit of {MAX_BYTES}: shorten its configuration, \
                 context or metadata"
            )));
        }
        self.latest = version.version;
        self.versions.push(version);
        let sizes = self.versions.iter().rev().scan(0, |total, version| {
            *total += self::bytes(version);
            Some(*total)
        });
        let kept = sizes.take(MAX_VERSIONS).take_while(|total| *total <= MAX_STORED_BYTES).count();
        self.versions.drain(..self.versions.len() - kept);
        Ok(())
    }
}

impl<'a> Assistants<'a> {
    /// Creates access to the assistants of a store. Does not read from the store.
    pub const fn of(store: &'a dyn RunStore) -> Self {
        Self(store)
    }

    /// Creates an assistant.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::Exists`] if an assistant with this id exists, and with [`RunsError::Invalid`] if the
    /// assistant takes more than 256 KiB of JSON.
    pub async fn create(self, new: NewAssistant) -> Result<Assistant, RunsError> {
        let now = SystemTime::now();
        let assistant = Assistant {
            name: new.name.unwrap_or_else(|| new.graph.clone()),
            id: new.id,
            graph: new.graph,
            config: new.config,
            context: new.context,
            metadata: new.metadata,
            description: new.description,
            version: 1,
            created: now,
            updated: now,
        };
        let mut stored = StoredAssistant { latest: 1, versions: Vec::new(), user: new.user };
        stored.push(assistant.clone())?;
        let document = Document::new(KIND, &assistant.id, encode(&stored)?);
        if create_counted(self.0, document, &stored.user).await? {
            Ok(assistant)
        } else {
            Err(RunsError::Exists { kind: KIND, id: assistant.id })
        }
    }

    /// Returns the number of assistants that a user has created.
    pub async fn count_of(self, user: &str) -> Result<usize, RunsError> {
        count_of(self.0, KIND, user).await
    }

    /// Returns the latest version of an assistant, or `None` if the assistant does not exist.
    pub async fn get(self, id: &str) -> Result<Option<Assistant>, RunsError> {
        let found = self.0.document(KIND, id).await?;
        Ok(found.map(|document| decode(&document)).transpose()?.and_then(|stored| stored.latest().cloned()))
    }

    /// Creates a new version of an assistant, which becomes the latest version. Applies the changes in `patch` to the
    /// latest version so far. Returns the new version. Keeps at most 100 versions and 1 MiB of JSON, and deletes the
    /// oldest versions.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::NoDocument`] if the assistant does not exist, and with [`RunsError::Invalid`] if the new
    /// version takes more than 256 KiB of JSON.
    pub async fn update(self, id: &str, patch: AssistantPatch) -> Result<Assistant, RunsError> {
        self.change(id, |stored| {
            let mut next = stored.latest().cloned().ok_or_else(|| missing(id))?;
            let patch = patch.clone();
            next.version = stored.versions.iter().map(|version| version.version).max().unwrap_or_default() + 1;
            next.updated = SystemTime::now();
            next.graph = patch.graph.unwrap_or(next.graph);
            next.config = patch.config.unwrap_or(next.config);
            next.context = patch.context.unwrap_or(next.context);
            next.name = patch.name.unwrap_or(next.name);
            next.description = patch.description.or(next.description);
            next.metadata.extend(patch.metadata);
            stored.push(next)
        })
        .await
    }

    /// Makes the version with this number the latest one again: [`get`](Self::get) returns it, and
    /// [`update`](Self::update) applies changes to it. Keeps all versions. Returns the version.
    pub async fn set_latest(self, id: &str, version: u64) -> Result<Assistant, RunsError> {
        self.change(id, |stored| {
            if stored.versions.iter().all(|known| known.version != version) {
                let known = stored.versions.len();
                return Err(RunsError::Invalid(format!(
                    "assistant `{id}` has no version {version}: choose one of its {known} versions"
                )));
            }
            stored.latest = version;
            Ok(())
        })
        .await
    }

    /// Returns all versions of an assistant, newest first.
    pub async fn versions(self, id: &str) -> Result<Vec<Assistant>, RunsError> {
        let document = self.0.document(KIND, id).await?.ok_or_else(|| missing(id))?;
        let mut versions = decode(&document)?.versions;
        versions.sort_by_key(|version| std::cmp::Reverse(version.version));
        Ok(versions)
    }

    /// Deletes an assistant with all its versions. Returns false if it does not exist.
    pub async fn delete(self, id: &str) -> Result<bool, RunsError> {
        delete_counted(self.0, KIND, id).await
    }

    /// Returns the assistants that match a query, newest assistant first. Compares the query with the latest version of
    /// each assistant, and returns this version. Logs and skips assistants that it cannot read.
    pub async fn search(self, query: &AssistantQuery) -> Result<Vec<Assistant>, RunsError> {
        let mut found: Vec<Assistant> = readable(self.0.documents(KIND).await?, decode)
            .filter_map(|stored| stored.latest().filter(|assistant| query.wants(assistant)).cloned())
            .collect();
        found.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        Ok(found)
    }

    async fn change(
        self,
        id: &str,
        change: impl Fn(&mut StoredAssistant) -> Result<(), RunsError>,
    ) -> Result<Assistant, RunsError> {
        for _ in 0..ATTEMPTS {
            let document = self.0.document(KIND, id).await?.ok_or_else(|| missing(id))?;
            let mut stored = decode(&document)?;
            change(&mut stored)?;
            let latest = stored.latest().cloned().ok_or_else(|| missing(id))?;
            let next = Document::new(KIND, id, encode(&stored)?);
            if self.0.put_document(next, Some(document.revision)).await? {
                return Ok(latest);
            }
        }
        Err(RunsError::Invalid(format!("other callers keep changing assistant `{id}`: try again")))
    }
}

impl std::fmt::Debug for Assistants<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Assistants")
    }
}

fn bytes(assistant: &Assistant) -> usize {
    serde_json::to_vec(assistant).map_or(usize::MAX, |json| json.len())
}

fn missing(id: &str) -> RunsError {
    RunsError::NoDocument { kind: KIND.to_owned(), id: id.to_owned() }
}

fn decode(document: &Document) -> Result<StoredAssistant, RunsError> {
    serde_json::from_value(document.value.clone())
        .map_err(|error| RunsError::Invalid(format!("the stored assistant `{}` cannot be read: {error}", document.id)))
}

fn encode(stored: &StoredAssistant) -> Result<Value, RunsError> {
    serde_json::to_value(stored).map_err(|error| RunsError::Invalid(format!("an assistant cannot be stored: {error}")))
}
