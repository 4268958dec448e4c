//! The default assistants: one for each graph of the server, with an id that follows from the name of the graph.
//!
//! Servers with different graphs may share a database. A default assistant may therefore belong to a graph that this
//! server does not have.

use std::collections::{BTreeMap, HashSet};

use hier_core::runs::{Assistant, Assistants, NewAssistant, RunStore, RunsError};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{ApiError, ApiResult};
use crate::fault::already_exists;
use crate::graphs::ServedGraph;

/// The metadata field of an assistant that names its creator, and the value that the server writes there.
const CREATED_BY: &str = "created_by";
const SYSTEM: &str = "system";

/// The namespace of the ids, as in LangGraph's server.
const NAMESPACE: Uuid = Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8);

/// The number of attempts to restore an assistant that other processes delete at the same time.
const ATTEMPTS: usize = 16;

/// Returns the id of the default assistant of a graph.
pub(crate) fn default_id(graph: &str) -> String {
    Uuid::new_v5(&NAMESPACE, graph.as_bytes()).to_string()
}

/// Returns true if the metadata says that the server created the assistant.
fn is_marked(assistant: &Assistant) -> bool {
    assistant.metadata.get(CREATED_BY).is_some_and(|by| *by == SYSTEM)
}

/// The default assistants of a server.
#[derive(Clone, Copy)]
pub(crate) struct DefaultAssistants<'a> {
    graphs: &'a BTreeMap<String, ServedGraph>,
    runs: &'a dyn RunStore,
}

impl<'a> DefaultAssistants<'a> {
    pub(crate) const fn new(graphs: &'a BTreeMap<String, ServedGraph>, runs: &'a dyn RunStore) -> Self {
        Self { graphs, runs }
    }

    /// Returns the ids of the default assistants of this server's graphs.
    pub(crate) fn ids(self) -> HashSet<String> {
        self.graphs.keys().map(|graph| default_id(graph)).collect()
    }

    /// Returns true if a default assistant of this server's graphs has this id.
    pub(crate) fn contains(self, id: &str) -> bool {
        self.ids().contains(id)
    }

    /// Returns true for the default assistant of a graph, even if this server does not serve the graph at the moment.
    fn is_default(self, assistant: &Assistant) -> bool {
        self.contains(&assistant.id) || is_marked(assistant)
    }

    /// Refuses to give a default assistant another graph than its own.
    pub(crate) fn check_graph(self, assistant: &Assistant, field: &str, graph: &str) -> ApiResult<()> {
        let id = &assistant.id;
        if !self.is_default(assistant) || default_id(graph) == *id {
            return Ok(());
        }
        Err(ApiError::invalid(format!(
            "`{field}`: {id} is the default assistant of another graph: create another assistant of graph `{graph}`"
        )))
    }

    /// Refuses metadata that would make a user's assistant look like a default assistant, or the reverse. A new
    /// assistant is `None`.
    pub(crate) fn check_metadata(
        self,
        assistant: Option<&Assistant>,
        metadata: Option<&Map<String, Value>>,
    ) -> ApiResult<()> {
        let is_default = assistant.is_some_and(|assistant| self.is_default(assistant));
        match metadata.and_then(|metadata| metadata.get(CREATED_BY)) {
            Some(by) if (*by == SYSTEM) != is_default => Err(ApiError::invalid(
                "`metadata.created_by`: `system` marks the assistants that the server creates for its graphs: leave it out",
            )),
            _ => Ok(()),
        }
    }

    /// Creates the default assistant of a graph. Returns false if an assistant with its id exists.
    pub(crate) async fn create(self, graph: &str) -> Result<bool, RunsError> {
        let Some(served) = self.graphs.get(graph) else { return Ok(false) };
        let mut new = NewAssistant::new(default_id(graph), graph);
        new.name = Some(served.graph.spec().name.to_string());
        new.metadata.insert(CREATED_BY.to_owned(), SYSTEM.into());
        match Assistants::of(self.runs).create(new).await {
            Err(error) if already_exists(&error) => Ok(false),
            made => made.map(|_| true),
        }
    }

    /// Creates the default assistant of each graph, unless it exists. Replaces a user's assistant that has the same id.
    pub(crate) async fn restore(self) -> Result<(), RunsError> {
        for graph in self.graphs.keys() {
            if !self.try_restore(graph).await? {
                tracing::warn!(
                    graph,
                    "failed to restore a default assistant, because other processes change it: a request by the graph's name \
                     creates it"
                );
            }
        }
        Ok(())
    }

    /// Restores the default assistant of a graph. Returns false if [`ATTEMPTS`] attempts fail.
    async fn try_restore(self, graph: &str) -> Result<bool, RunsError> {
        for _ in 0..ATTEMPTS {
            if self.create(graph).await? {
                return Ok(true);
            }
            match self.repair(graph).await {
                Ok(false) | Err(RunsError::NoDocument { .. }) => {}
                done => return done,
            }
        }
        Ok(false)
    }

    /// Returns a default assistant to its graph: the newest version with this graph becomes the latest one. Deletes an
    /// assistant without such a version. Returns false, or fails with [`RunsError::NoDocument`], if the assistant no
    /// longer exists.
    async fn repair(self, graph: &str) -> Result<bool, RunsError> {
        let (assistants, id) = (Assistants::of(self.runs), default_id(graph));
        let is_own = |version: &Assistant| is_marked(version) && version.graph == graph;
        let Some(found) = assistants.get(&id).await? else { return Ok(false) };
        if is_own(&found) {
            return Ok(true);
        }
        let Some(own) = assistants.versions(&id).await?.into_iter().find(is_own) else {
            tracing::warn!(
                assistant = id,
                graph,
                "deleted an assistant, because its id belongs to a graph of this server"
            );
            assistants.delete(&id).await?;
            return Ok(false);
        };
        match assistants.set_latest(&id, own.version).await {
            // Another process has replaced the assistant with one that has fewer versions.
            Err(RunsError::Invalid(_)) => Ok(false),
            done => {
                let (other, version) = (found.graph, done?.version);
                tracing::warn!(assistant = id, graph, other, version, "returned a default assistant to its graph");
                Ok(true)
            }
        }
    }
}
