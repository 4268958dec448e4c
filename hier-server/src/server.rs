use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use hier_core::CancellationToken;
use hier_core::graph::{CompiledGraph, DynGraph, Runner, SecretChannel};
use hier_core::runs::RunStore;
use hier_core::state::Values;
use hier_core::store::Store;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::auth::{Auth, NoAuth};
use crate::background::send_to_paths;
use crate::context::{IntoContext, RunRequest};
use crate::cross_origin;
use crate::database::Database;
use crate::failure::ServerError;
use crate::graphs::ServedGraph;
use crate::metrics::Metrics;
use crate::middleware::{self, RequestGate};
use crate::options::Limits;
use crate::router::router;
use crate::running::{Running, WorkOptions, WorkerProcess, work};
use crate::serving::serve;
use crate::studio;
use crate::webhook::{WebhookSender, Webhooks};

/// A server that offers graphs over HTTP. By default, it keeps its data in memory, listens only on loopback addresses,
/// and executes runs in its own process.
///
/// ```no_run
/// use hier_core::prelude::*;
/// use hier_server::Server;
///
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Filing { accepted: bool }
/// # async fn assess() -> FilingUpdate { Filing::update().accepted(true) }
/// # graph! { Review<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
/// # #[tokio::main]
/// # async fn main() -> std::result::Result<(), hier_server::ServerError> {
/// Server::new().graph("review", Review::compile(), ()).serve("127.0.0.1:8123").await
/// # }
/// ```
#[must_use = "a server does nothing until it serves"]
pub struct Server {
    graphs: BTreeMap<String, ServedGraph>,
    database: Option<String>,
    opened: Option<(Arc<dyn RunStore>, Arc<dyn Store>)>,
    auth: Option<Arc<dyn Auth>>,
    open_to_all: bool,
    origins: Vec<String>,
    limits: Limits,
    routes: Option<Router>,
    webhooks: Webhooks,
    work: WorkOptions,
    works: bool,
    runner: Option<Box<dyn Runner>>,
    studio: StudioMode,
    stopping: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StudioMode {
    WithApi,
    /// Serves only the studio, without the API and without graphs.
    Only,
    Off,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("graphs", &self.graphs.keys()).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server without graphs.
    pub fn new() -> Self {
        Self {
            graphs: BTreeMap::new(),
            database: None,
            opened: None,
            auth: None,
            open_to_all: false,
            origins: Vec::new(),
            limits: Limits::default(),
            routes: None,
            webhooks: Webhooks::new(),
            work: WorkOptions::default(),
            works: true,
            runner: None,
            studio: StudioMode::WithApi,
            stopping: CancellationToken::new(),
        }
    }

    /// Adds a graph under a name. `context` is a value, which the server clones for each run, or a function that
    /// creates the value from a [`RunRequest`]. The function may return a `Result`. Replaces an earlier graph with this
    /// name.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// use hier_server::{RunRequest, Server};
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Filing { accepted: bool }
    /// # async fn assess() -> FilingUpdate { Filing::update().accepted(true) }
    /// # #[derive(Clone)] struct Desk { tenant: String }
    /// # graph! { Review<Filing, Desk> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
    /// let desk = |run: &RunRequest| Desk { tenant: run.user.identity.clone() };
    /// let server = Server::new().graph("review", Review::compile(), desk);
    /// # let _ = server;
    /// ```
    #[allow(clippy::needless_pass_by_value)] // as it is written: `.graph("desk", Desk::compile(), context)`
    pub fn graph<S, C, I, O, M>(
        self,
        name: impl Into<String>,
        graph: CompiledGraph<S, C, I, O>,
        context: impl IntoContext<C, M>,
    ) -> Self
    where
        S: Values,
        C: Send + Sync + 'static,
    {
        let erased = graph.erase(move |run| context.context(&RunRequest::of(run)));
        self.dyn_graph(name, Arc::new(erased))
    }

    /// Adds a graph that implements [`DynGraph`], such as a graph whose types [`CompiledGraph::erase`] has erased. Replaces
    /// an earlier graph with this name.
    pub fn dyn_graph(mut self, name: impl Into<String>, graph: Arc<dyn DynGraph>) -> Self {
        self.graphs.insert(name.into(), ServedGraph::new(graph));
        self
    }

    /// Sets the database for all data: `sqlite:FILE` or `postgres://…`. Defaults to the process's memory.
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// Sets the storage for all data, instead of [`database`](Self::database). `store` holds the items that all threads
    /// share, and `runs` holds all other data.
    pub fn storage(mut self, runs: Arc<dyn RunStore>, store: Arc<dyn Store>) -> Self {
        self.opened = Some((runs, store));
        self
    }

    /// Sets the authentication and authorization of requests. By default, the server has no users, and listens only on
    /// loopback addresses.
    pub fn auth(mut self, auth: impl Auth) -> Self {
        self.auth = Some(Arc::new(auth));
        self
    }

    /// Allows other machines to use a server without authentication. Every client then has all rights, so use this only
    /// behind a proxy that authenticates users.
    pub fn without_auth(mut self) -> Self {
        self.open_to_all = true;
        self
    }

    /// Allows web pages of these origins, such as `https://chat.example.org`, to use the server. `*` allows all
    /// origins. By default, no origins are allowed.
    pub fn allow_origins<O: Into<String>>(mut self, origins: impl IntoIterator<Item = O>) -> Self {
        self.origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum size of a request body in bytes. Defaults to 16 MiB.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self
    }

    /// Sets the time within which a response must start. If the response takes longer, the client receives status 504.
    /// Defaults to 1 minute.
    pub fn max_time(mut self, time: Duration) -> Self {
        self.limits.time = time;
        self
    }

    /// Sets the maximum number of requests at the same time, including open streams. Further requests receive status
    /// 503. Defaults to 20,000.
    pub fn max_requests(mut self, requests: usize) -> Self {
        self.limits.requests = requests;
        self
    }

    /// Sets the maximum number of requests per second for each user. Requests without a user, such as those for public
    /// pages, are counted for each address, and so are requests with invalid credentials. Further requests receive
    /// status 429. Defaults to 1,000. Requests from this machine without a user are limited only if you call this
    /// method.
    pub fn rate_limit(mut self, each_second: u32) -> Self {
        (self.limits.rate, self.limits.rate_is_set) = (each_second.max(1), true);
        self
    }

    /// Sets the age at which the server deletes events and ended runs. By default, the server deletes them only
    /// together with their thread.
    pub fn keep_history(mut self, time: Duration) -> Self {
        self.limits.history = Some(time);
        self
    }

    /// Sets the options of webhooks, such as the allowed URLs. By default, all public URLs are allowed.
    pub fn webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = webhooks;
        self
    }

    /// Adds [`axum`](crate::axum) routes. The server applies its authentication and limits to them.
    ///
    /// ```
    /// use hier_server::Server;
    /// use hier_server::axum::{Router, routing::get};
    ///
    /// let server = Server::new().routes(Router::new().route("/hello", get(async || "hello")));
    /// # let _ = server;
    /// ```
    ///
    /// Panics if an earlier call has added a route with the same path and method. [`start`](Self::start) panics if the
    /// server itself has a route with one of the paths and methods.
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = Some(self.routes.take().unwrap_or_default().merge(routes));
        self
    }

    /// Returns a token that is cancelled when the server stops. Streams of custom [routes](Self::routes) must then end.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Sets the maximum number of runs that this process executes at the same time. Defaults to 10.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.work.concurrency = runs;
        self
    }

    /// Limits the time for which this process executes a run. A run that takes longer ends with the status `timeout`.
    /// If another process continues the run, the limit of that process applies. Defaults to no limit.
    pub fn max_run_time(mut self, limit: Duration) -> Self {
        self.work.max_run_time = limit;
        self
    }

    /// Limits the supersteps of a run in this process, even if the request has a higher `recursion_limit`. A run that
    /// needs more supersteps fails. By default, only the request's limit counts, or
    /// [`DEFAULT_RECURSION_LIMIT`](hier_core::DEFAULT_RECURSION_LIMIT) if the request has none.
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.work.max_steps = steps;
        self
    }

    /// Leaves runs, crons, webhooks and the deletion of expired data to [workers](Self::worker) in other processes. The
    /// server itself sends the webhooks to its paths, because the workers do not have its routes.
    pub fn without_worker(mut self) -> Self {
        self.works = false;
        self
    }

    /// Executes all runs in another system, such as a cluster with `hier_restate::ClusterRunner`. That system stores
    /// the states of threads. The server stores only the list of threads and runs, and the events of runs.
    /// [`concurrency`](Self::concurrency) limits the number of concurrent runs of this server in that system.
    pub fn runner(mut self, runner: impl Runner) -> Self {
        self.runner = Some(Box::new(runner));
        self
    }

    /// Disables the pages of the studio at `/studio`.
    pub fn without_studio(mut self) -> Self {
        self.studio = StudioMode::Off;
        self
    }

    /// Serves only the studio, to inspect a database without the program that wrote it. The studio can then read, copy,
    /// prune and delete threads, but not run them. Drops the graphs that were added, because the studio needs none.
    pub fn only_studio(mut self) -> Self {
        self.studio = StudioMode::Only;
        self.works = false;
        self.graphs.clear();
        self
    }

    async fn app(&mut self) -> Result<Arc<App>, ServerError> {
        if self.graphs.is_empty() && self.studio != StudioMode::Only {
            return Err(ServerError::NoGraphs);
        }
        let database = match (self.opened.take(), &self.database) {
            (Some((runs, store)), _) => Database { runs, store },
            (None, Some(url)) => Database::open(url).await?,
            (None, None) => Database::memory(),
        };
        let mut graphs = std::mem::take(&mut self.graphs);
        let secret = graphs.values().flat_map(|served| served.graph.secret_channels()).next();
        if let Some(SecretChannel { graph, channel }) = secret.filter(|_| !database.runs.capabilities().protects_values)
        {
            return Err(ServerError::Unencrypted { graph, channel });
        }
        if let Some(runner) = &self.runner {
            for (name, served) in &mut graphs {
                served.graph = runner.graph(name, served.graph.clone());
            }
        }
        let app = Arc::new(App {
            graphs,
            runs: database.runs,
            worker: OnceLock::new(),
            store: database.store,
            auth: self.auth.clone().unwrap_or_else(|| Arc::new(NoAuth)),
            limits: self.limits,
            webhooks: self.webhooks.clone(),
            metrics: Metrics::default(),
            stopping: self.stopping.clone(),
            tasks: TaskTracker::new(),
        });
        WebhookSender::new(app.runs.clone(), app.webhooks.clone(), None).map_err(ServerError::Webhooks)?;
        app.default_assistants().restore().await?;
        Ok(app)
    }

    /// Serves until the process receives a signal to stop (SIGTERM or Ctrl+C), then stops like [`Running::stop`].
    ///
    /// Cancel safety: dropping the future does not stop a server that has started. To stop the server from your
    /// program, use [`start`](Self::start) and [`Running::stop`].
    ///
    /// # Errors
    ///
    /// Fails if [`start`](Self::start) fails, or if the server fails later.
    pub async fn serve(self, address: impl fmt::Display) -> Result<(), ServerError> {
        self.start(address).await?.until_signal().await
    }

    /// Starts serving in the background.
    ///
    /// # Errors
    ///
    /// Fails if no graph was added and [`only_studio`](Self::only_studio) was not called, or for another reason that
    /// [`ServerError`] lists.
    pub async fn start(mut self, address: impl fmt::Display) -> Result<Running, ServerError> {
        let text = address.to_string();
        let listener = TcpListener::bind(&text).await.map_err(|error| ServerError::Listen { address: text, error })?;
        let address = listener.local_addr()?;
        if self.auth.is_none() && !self.open_to_all && !address.ip().is_loopback() {
            return Err(ServerError::Unprotected { address });
        }
        let origins = std::mem::take(&mut self.origins);
        let routes = self.routes.take().unwrap_or_default().layer(from_fn(middleware::add_identity));
        let (works, own_work) = (self.works, self.work);
        let sends_to_paths = self.studio != StudioMode::Only && self.webhooks.has_paths();
        let (api, pages) = (middleware::PUBLIC_ROUTES.to_vec(), studio::PAGES.to_vec());
        let (served, public) = match self.studio {
            StudioMode::WithApi => (router().merge(studio::router()), [api, pages].concat()),
            StudioMode::Only => (studio::router(), pages),
            StudioMode::Off => (router(), api),
        };
        let is_local_only = self.auth.is_none() && !self.open_to_all;
        let app = self.app().await?;
        let mut service = layered(app.clone(), served.merge(routes.with_state(())), public, &origins)?;
        if is_local_only {
            service = service.layer(from_fn_with_state(Arc::from(origins), cross_origin::check_origin));
        }
        let (stop, tasks) = (app.stopping.clone(), app.tasks.clone());
        let working = if works {
            Some(tokio::spawn(work(app, own_work, Some(address), stop.clone())))
        } else if sends_to_paths {
            Some(tokio::spawn(send_to_paths(app, address, stop.clone())))
        } else {
            None
        };
        let serving = tokio::spawn(serve(listener, service, stop.clone()));
        tracing::info!(%address, "serving");
        Ok(Running { address, stop, serving, working, tasks })
    }

    /// Creates a worker that does not serve HTTP. The worker executes runs that servers with the same
    /// [`database`](Self::database) have accepted.
    ///
    /// # Errors
    ///
    /// Fails if no graph was added, or for another reason that [`ServerError`] lists.
    pub async fn worker(mut self) -> Result<WorkerProcess, ServerError> {
        let work = self.work;
        let app = self.app().await?;
        Ok(WorkerProcess { app, work })
    }
}

fn layered(
    app: Arc<App>,
    served: Router<Arc<App>>,
    public: Vec<&'static str>,
    origins: &[String],
) -> Result<Router, ServerError> {
    let router = served
        .fallback(middleware::not_found)
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(DefaultBodyLimit::max(app.limits.body))
        .layer(from_fn_with_state(Arc::new(RequestGate::new(app.clone(), public)), middleware::gate))
        .layer(tower_http::catch_panic::CatchPanicLayer::custom(middleware::respond_to_panic));
    let router = match cross_origin::layer(origins)? {
        Some(layer) => router.layer(layer),
        None => router,
    };
    Ok(router.with_state(app))
}
