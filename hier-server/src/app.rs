//! What all requests share, and who sends one.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use hier_core::runs::{Assistant, Assistants, NewRun, Run, RunStore, RunsError, ThreadIs, ThreadRow, contains};
use hier_core::store::Store;
use hier_worker::Handle;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::auth::{Access, Action, Auth, Decision, Resource, User};
use crate::body::id;
use crate::error::{ApiError, ApiResult};
use crate::fault::{self, refused};
use crate::graphs::Served;
use crate::metrics::Metrics;
use crate::options::Limits;
use crate::webhook::Webhooks;
use crate::wire::places::Places;

/// What all requests share.
pub(crate) struct App {
    pub(crate) graphs: BTreeMap<String, Served>,
    pub(crate) runs: Arc<dyn RunStore>,
    /// The worker of this process, once it works.
    pub(crate) worker: OnceLock<Handle>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) auth: Arc<dyn Auth>,
    pub(crate) limits: Limits,
    pub(crate) webhooks: Webhooks,
    pub(crate) metrics: Metrics,
    /// Resolves to true when the server is to stop: streams end then.
    pub(crate) stopping: tokio_util::sync::CancellationToken,
    /// What is done to its end though the client who asked for it has gone: a server that stops waits for it.
    pub(crate) tasks: tokio_util::task::TaskTracker,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("graphs", &self.graphs.keys()).finish_non_exhaustive()
    }
}

impl App {
    /// Returns true if this is the id of the default assistant of one of this server's graphs.
    pub(crate) fn is_system(&self, assistant: &str) -> bool {
        self.system_assistants().contains(assistant)
    }

    /// The ids of the assistants that the graphs of this server have by themselves.
    pub(crate) fn system_assistants(&self) -> HashSet<String> {
        self.graphs.keys().map(|graph| system_assistant(graph).to_string()).collect()
    }

    /// Adds a run, which the worker of this process begins at once if it has a free slot.
    pub(crate) async fn create_run(&self, new: NewRun) -> Result<Run, RunsError> {
        match self.worker.get() {
            Some(worker) => worker.create_run(&self.runs, new).await,
            None => self.runs.create_run(new).await,
        }
    }

    /// Deletes this thread, here and where its graph keeps it. False if it no longer exists, even if another thread has its id. Its crons
    /// are disabled when they are next due, since a cron fires only on its original thread.
    pub(crate) async fn remove_thread(&self, thread: &ThreadRow) -> ApiResult<bool> {
        if !self.runs.remove_thread_if(&thread.id, ThreadIs::this(thread)).await.map_err(refused)? {
            return Ok(false);
        }
        if let Some(graph) = thread.metadata.get("graph_id").and_then(Value::as_str) {
            self.forget(graph, &thread.id).await?;
        }
        Ok(true)
    }

    /// Deletes a thread where its graph keeps it, if that is elsewhere.
    pub(crate) async fn forget(&self, graph: &str, thread: &str) -> ApiResult<()> {
        match self.graphs.get(graph) {
            Some(served) => served.graph.forget(thread).await.map_err(|error| fault::graph(&error)),
            None => Ok(()),
        }
    }

    /// The run with this id, if it is one of this thread.
    pub(crate) async fn run_of(&self, thread: &str, id: Uuid) -> Option<Run> {
        self.runs.run(id).await.ok().flatten().filter(|run| run.thread == thread)
    }

    /// This run as it is now; none if it was deleted, though another run may have its id since.
    pub(crate) async fn same_run(&self, run: &Run) -> Option<Run> {
        self.run_of(&run.thread, run.id).await.filter(|now| now.number == run.number)
    }

    /// The graph with this name.
    pub(crate) fn graph(&self, name: &str) -> ApiResult<&Served> {
        self.graphs.get(name).ok_or_else(|| {
            let known: Vec<String> = self.graphs.keys().map(|name| format!("'{name}'")).collect();
            ApiError::not_found(format!("Graph '{name}' not found. Expected one of: [{}]", known.join(", ")))
        })
    }

    /// Returns the positions of messages in the states of the graph with this name.
    pub(crate) fn places(&self, graph: &str) -> Places {
        self.graphs.get(graph).map(|served| served.places.clone()).unwrap_or_default()
    }

    /// As [`places`](Self::places), for the graph that ran last on a thread.
    pub(crate) fn places_of(&self, thread: &ThreadRow) -> Places {
        let graph = thread.metadata.get("graph_id").and_then(Value::as_str);
        graph.map(|graph| self.places(graph)).unwrap_or_default()
    }
}

/// The metadata field of an assistant that names its creator, and the value that the server writes there.
pub(crate) const CREATED_BY: &str = "created_by";
pub(crate) const SYSTEM: &str = "system";

/// The namespace of the ids of such assistants, which LangGraph's server uses too.
const NAMESPACE: Uuid = Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8);

/// The id of the assistant that each graph has by itself.
pub(crate) fn system_assistant(graph: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, graph.as_bytes())
}

/// Who sends a request, and what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) app: Arc<App>,
    pub(crate) user: User,
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        // The layer that authenticates has put it there.
        let user = parts.extensions.get::<User>().cloned().unwrap_or_default();
        Ok(Self { app: app.clone(), user })
    }
}

impl Caller {
    /// What the metadata has to contain of those to which this may be done; empty for all. 403 if it may be done to none.
    pub(crate) async fn may(&self, resource: Resource, action: Action) -> ApiResult<Map<String, Value>> {
        match self.app.auth.authorize(&self.user, Access::new(resource, action)).await {
            Decision::Allow => Ok(Map::new()),
            Decision::Only(filter) => Ok(filter),
            Decision::Deny => Err(ApiError::forbidden()),
        }
    }

    /// The same for the store.
    pub(crate) async fn may_in_store(&self, action: Action, namespace: &[String]) -> ApiResult<()> {
        match self.app.auth.authorize(&self.user, Access::store(action, namespace)).await {
            Decision::Allow | Decision::Only(_) => Ok(()),
            Decision::Deny => Err(ApiError::forbidden()),
        }
    }

    /// A thread to which this may be done; 404 if there is none, or none for this caller.
    pub(crate) async fn thread(&self, thread: &str, action: Action) -> ApiResult<ThreadRow> {
        let thread = id("thread", thread)?.to_string();
        let filter = self.may(Resource::Threads, action).await?;
        let found = self.app.runs.thread(&thread).await.map_err(refused)?;
        found.filter(|row| matches(&row.metadata, &filter)).ok_or_else(|| ApiError::no_thread(thread))
    }

    /// A run of such a thread.
    pub(crate) async fn run(&self, thread: &str, run: &str, action: Action) -> ApiResult<Run> {
        let thread = self.thread(thread, action).await?;
        let run = id("run", run)?;
        let found = self.app.runs.run(run).await.map_err(refused)?;
        found.filter(|run| run.thread == thread.id).ok_or_else(|| ApiError::not_found("Not Found"))
    }

    /// An assistant by its id.
    pub(crate) async fn assistant(&self, assistant: &str, action: Action) -> ApiResult<Assistant> {
        let assistant = id("assistant", assistant)?.to_string();
        let filter = self.may(Resource::Assistants, action).await?;
        let found = Assistants::of(&*self.app.runs).get(&assistant).await.map_err(refused)?;
        let found = found.ok_or_else(|| ApiError::no_assistant(&assistant))?;
        if matches(&found.metadata, &filter) {
            return Ok(found);
        }
        match (self.app.is_system(&found.id), action) {
            (true, Action::Read | Action::CreateRun) => Ok(found),
            (true, _) => Err(ApiError::forbidden()),
            (false, _) => Err(ApiError::no_assistant(assistant)),
        }
    }

    /// An assistant by its id or the name of its graph.
    pub(crate) async fn assistant_or_graph(&self, name: &str) -> ApiResult<Assistant> {
        if self.app.graphs.contains_key(name) {
            return self.assistant(&system_assistant(name).to_string(), Action::Read).await;
        }
        if Uuid::try_parse(name).is_err() {
            let known: Vec<&str> = self.app.graphs.keys().map(String::as_str).collect();
            return Err(ApiError::invalid(format!(
                "Invalid assistant: '{name}'. Must be either:\n- A valid assistant UUID, or\n- One of the registered graphs: {}\n\
                 No assistant found for '{name}'.",
                known.join(", ")
            )));
        }
        match self.assistant(name, Action::Read).await {
            Err(error) if error.status == axum::http::StatusCode::NOT_FOUND => {
                Err(ApiError::not_found("Thread or assistant not found."))
            }
            found => found,
        }
    }
}

/// Whether metadata has all of these values.
pub(crate) fn matches(metadata: &Map<String, Value>, filter: &Map<String, Value>) -> bool {
    filter.iter().all(|(key, want)| metadata.get(key).is_some_and(|have| contains(have, want)))
}

/// Whether an error says that something is there already.
pub(crate) fn is_there(error: &RunsError) -> bool {
    matches!(error, RunsError::Exists { .. })
}
