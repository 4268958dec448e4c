//! The state that all requests share, and the user who sent a request.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use hier_core::runs::{Assistant, Assistants, NewRun, Run, RunStore, RunsError, ThreadIs, ThreadRow, contains};
use hier_core::store::Store;
use hier_worker::Handle;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::auth::{Access, Action, Auth, Decision, Resource, User};
use crate::body::id;
use crate::default_assistants::{DefaultAssistants, default_id};
use crate::error::{ApiError, ApiResult};
use crate::fault::{self, refused};
use crate::graphs::ServedGraph;
use crate::metrics::Metrics;
use crate::options::Limits;
use crate::webhook::Webhooks;
use crate::wire::message_paths::MessagePaths;
use crate::wire::object::RunObject;
use crate::wire::row;

pub(crate) struct App {
    pub(crate) graphs: BTreeMap<String, ServedGraph>,
    pub(crate) runs: Arc<dyn RunStore>,
    /// The worker of this process, set when the worker starts.
    pub(crate) worker: OnceLock<Handle>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) auth: Arc<dyn Auth>,
    pub(crate) limits: Limits,
    pub(crate) webhooks: Webhooks,
    pub(crate) metrics: Metrics,
    /// Cancelled when the server stops. Streams end then.
    pub(crate) stopping: tokio_util::sync::CancellationToken,
    /// Tasks that continue if the client disconnects. A server that stops waits for them.
    pub(crate) tasks: tokio_util::task::TaskTracker,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("graphs", &self.graphs.keys()).finish_non_exhaustive()
    }
}

impl App {
    pub(crate) fn default_assistants(&self) -> DefaultAssistants<'_> {
        DefaultAssistants::new(&self.graphs, &*self.runs)
    }

    /// Adds a run. If the worker of this process has a free slot, it starts the run at once.
    pub(crate) async fn create_run(&self, new: NewRun) -> Result<Run, RunsError> {
        match self.worker.get() {
            Some(worker) => worker.create_run(&self.runs, new).await,
            None => self.runs.create_run(new).await,
        }
    }

    /// Deletes a thread in the database and where its graph stores it. Returns false if the thread no longer exists.
    /// Does not delete a later thread with the same id.
    pub(crate) async fn remove_thread(&self, thread: &ThreadRow) -> ApiResult<bool> {
        if !self.runs.remove_thread_if(&thread.id, ThreadIs::this(thread)).await.map_err(refused)? {
            return Ok(false);
        }
        if let Some(graph) = thread.metadata.get("graph_id").and_then(Value::as_str) {
            self.forget(graph, &thread.id).await?;
        }
        Ok(true)
    }

    /// Deletes a thread where its graph stores it, if that is not the server's database.
    pub(crate) async fn forget(&self, graph: &str, thread: &str) -> ApiResult<()> {
        match self.graphs.get(graph) {
            Some(served) => served.graph.forget(thread).await.map_err(|error| fault::graph(&error)),
            None => Ok(()),
        }
    }

    /// Refuses a change that the server can make only to threads in its own database.
    pub(crate) fn check_own(&self, thread: &ThreadRow, change: &str, instead: &str) -> ApiResult<()> {
        let graph = thread.metadata.get("graph_id").and_then(Value::as_str).and_then(|graph| self.graphs.get(graph));
        if !graph.is_some_and(|served| served.graph.runs_elsewhere()) {
            return Ok(());
        }
        Err(ApiError::bad_request(format!(
            "thread {} is stored by the cluster that runs its graph, so this server cannot {change} it: {instead}",
            thread.id
        )))
    }

    pub(crate) async fn run_of(&self, thread: &str, id: Uuid) -> ApiResult<Option<Run>> {
        Ok(self.runs.run(id).await.map_err(refused)?.filter(|run| run.thread == thread))
    }

    /// Reads a run again. Returns `None` if the run was deleted. A later run with the same id is another run.
    pub(crate) async fn same_run(&self, run: &Run) -> ApiResult<Option<Run>> {
        Ok(self.run_of(&run.thread, run.id).await?.filter(|now| now.number == run.number))
    }

    pub(crate) fn graph(&self, name: &str) -> ApiResult<&ServedGraph> {
        self.graphs.get(name).ok_or_else(|| {
            let known: Vec<String> = self.graphs.keys().map(|name| format!("'{name}'")).collect();
            ApiError::not_found(format!("Graph '{name}' not found. Expected one of: [{}]", known.join(", ")))
        })
    }

    pub(crate) fn message_paths(&self, graph: &str) -> MessagePaths {
        self.graphs.get(graph).map(|served| served.message_paths.clone()).unwrap_or_default()
    }

    pub(crate) fn run_object(&self, run: &Run) -> RunObject {
        row::run(&self.message_paths(&run.graph), run)
    }

    /// Returns [`message_paths`](Self::message_paths) of the graph that ran last on a thread.
    pub(crate) fn message_paths_of(&self, thread: &ThreadRow) -> MessagePaths {
        let graph = thread.metadata.get("graph_id").and_then(Value::as_str);
        graph.map(|graph| self.message_paths(graph)).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) app: Arc<App>,
    pub(crate) user: User,
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        // The middleware has authenticated the user.
        let user = parts.extensions.get::<User>().cloned().unwrap_or_default();
        Ok(Self { app: app.clone(), user })
    }
}

impl Caller {
    /// Returns the fields that the metadata of accessible resources must contain. Fails with 403 if no resource is
    /// accessible.
    pub(crate) async fn may(&self, resource: Resource, action: Action) -> ApiResult<Map<String, Value>> {
        match self.app.auth.authorize(&self.user, Access::new(resource, action)).await {
            Decision::Allow => Ok(Map::new()),
            Decision::Only(filter) => Ok(filter),
            Decision::Deny => Err(ApiError::forbidden()),
        }
    }

    pub(crate) async fn may_in_store(&self, action: Action, namespace: &[String]) -> ApiResult<()> {
        match self.app.auth.authorize(&self.user, Access::store(action, namespace)).await {
            Decision::Allow | Decision::Only(_) => Ok(()),
            Decision::Deny => Err(ApiError::forbidden()),
        }
    }

    /// Returns a thread. Fails with 404 if it does not exist, or if the caller has no access to it.
    pub(crate) async fn thread(&self, thread: &str, action: Action) -> ApiResult<ThreadRow> {
        let thread = id("thread", thread)?.to_string();
        let filter = self.may(Resource::Threads, action).await?;
        let found = self.app.runs.thread(&thread).await.map_err(refused)?;
        found.filter(|row| matches(&row.metadata, &filter)).ok_or_else(|| ApiError::no_thread(thread))
    }

    /// Returns a run of a thread, after the checks of [`thread`](Self::thread).
    pub(crate) async fn run(&self, thread: &str, run: &str, action: Action) -> ApiResult<Run> {
        let thread = self.thread(thread, action).await?;
        let run = id("run", run)?;
        let found = self.app.runs.run(run).await.map_err(refused)?;
        found.filter(|run| run.thread == thread.id).ok_or_else(|| ApiError::not_found("Not Found"))
    }

    pub(crate) async fn assistant(&self, assistant: &str, action: Action) -> ApiResult<Assistant> {
        let assistant = id("assistant", assistant)?.to_string();
        let filter = self.may(Resource::Assistants, action).await?;
        let found = Assistants::of(&*self.app.runs).get(&assistant).await.map_err(refused)?;
        let found = found.ok_or_else(|| ApiError::no_assistant(&assistant))?;
        if matches(&found.metadata, &filter) {
            return Ok(found);
        }
        match (self.app.default_assistants().contains(&found.id), action) {
            (true, Action::Read | Action::CreateRun) => Ok(found),
            (true, _) => Err(ApiError::forbidden()),
            (false, _) => Err(ApiError::no_assistant(assistant)),
        }
    }

    pub(crate) async fn assistant_or_graph(&self, name: &str) -> ApiResult<Assistant> {
        if self.app.graphs.contains_key(name) {
            let id = default_id(name);
            return match self.assistant(&id, Action::Read).await {
                // A caller with the right to do so has deleted it.
                Err(error) if error.status == StatusCode::NOT_FOUND => {
                    self.app.default_assistants().create(name).await.map_err(refused)?;
                    self.assistant(&id, Action::Read).await
                }
                found => found,
            };
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
            Err(error) if error.status == StatusCode::NOT_FOUND => {
                Err(ApiError::not_found("Thread or assistant not found."))
            }
            found => found,
        }
    }
}

/// Returns true if the metadata contains all of these fields.
pub(crate) fn matches(metadata: &Map<String, Value>, filter: &Map<String, Value>) -> bool {
    filter.iter().all(|(key, want)| metadata.get(key).is_some_and(|have| contains(have, want)))
}
