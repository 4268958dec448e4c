//! The server: what it serves, to whom, and where it keeps what it knows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use hier_core::CancellationToken;
use hier_core::graph::{CompiledGraph, DynGraph, Runner};
use hier_core::runs::{Assistant, Assistants, NewAssistant, RunStore};
use hier_core::state::Values;
use hier_core::store::Store;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::app::{App, CREATED_BY, SYSTEM, is_there, system_assistant};
use crate::auth::{Auth, Open};
use crate::context::{IntoContext, RunRequest};
use crate::cross_origin;
use crate::database::Database;
use crate::failure::ServerError;
use crate::graphs::Served;
use crate::layers::{self, Around};
use crate::metrics::Metrics;
use crate::options::Limits;
use crate::router::router;
use crate::running::{Running, Work, Worker, work};
use crate::serving::serve;
use crate::studio;
use crate::webhook::{Sender, Webhooks};

/// Serves graphs.
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
    graphs: BTreeMap<String, Served>,
    database: Option<String>,
    opened: Option<(Arc<dyn RunStore>, Arc<dyn Store>)>,
    auth: Option<Arc<dyn Auth>>,
    open_to_all: bool,
    origins: Vec<String>,
    limits: Limits,
    routes: Option<Router>,
    webhooks: Webhooks,
    work: Work,
    works: bool,
    runner: Option<Box<dyn Runner>>,
    studio: Studio,
    stopping: CancellationToken,
}

/// Whether the studio is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Studio {
    /// Beside everything else.
    Beside,
    /// Alone, without graphs.
    Alone,
    /// Not at all.
    Absent,
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
    /// A server without graphs, in memory, for this machine alone.
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
            work: Work::default(),
            works: true,
            runner: None,
            studio: Studio::Beside,
            stopping: CancellationToken::new(),
        }
    }

    /// Serves a graph under a name. The context is a value that every run gets a clone of, or a function of what the run was
    /// asked for, which may fail.
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

    /// The same of a graph without its types ([`CompiledGraph::erase`]): with schemas of one's own, for instance.
    pub fn dyn_graph(mut self, name: impl Into<String>, graph: Arc<dyn DynGraph>) -> Self {
        self.graphs.insert(name.into(), Served::new(graph));
        self
    }

    /// Keeps everything in this database: `sqlite:FILE` or `postgres://…`. Without, in memory.
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// Keeps everything in what is open already.
    pub fn storage(mut self, runs: Arc<dyn RunStore>, store: Arc<dyn Store>) -> Self {
        self.opened = Some((runs, store));
        self
    }

    /// Asks everybody who they are.
    pub fn auth(mut self, auth: impl Auth) -> Self {
        self.auth = Some(Arc::new(auth));
        self
    }

    /// Lets everybody who reaches the server do everything, from other machines too: where something in front of it asks who
    /// they are.
    pub fn without_auth(mut self) -> Self {
        self.open_to_all = true;
        self
    }

    /// Lets pages of these origins (`https://chat.example.org`) use the server from a browser; `*` is every origin. None unless
    /// given.
    pub fn allow_origins<O: Into<String>>(mut self, origins: impl IntoIterator<Item = O>) -> Self {
        self.origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// The largest body that is read, in bytes; 16 MiB unless given.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self
    }

    /// How long the server takes at most before it begins an answer; one minute unless given. Streams may last.
    pub fn max_time(mut self, time: Duration) -> Self {
        self.limits.time = time;
        self
    }

    /// How many requests are answered at once, open streams included; 20,000 unless given. Others get a 503.
    pub fn max_requests(mut self, requests: usize) -> Self {
        self.limits.requests = requests;
        self
    }

    /// How many requests each user (each address, where nobody is asked who they are) may send a second; others get a 429 that says
    /// when to try again. 1,000 unless given, which does not hold for programs on this machine that are not asked who they are.
    pub fn rate_limit(mut self, each_second: u32) -> Self {
        (self.limits.rate, self.limits.rate_is_given) = (each_second.max(1), true);
        self
    }

    /// How long events and ended runs are kept after they were told or ended; as long as their thread unless given.
    pub fn keep_history(mut self, time: Duration) -> Self {
        self.limits.history = Some(time);
        self
    }

    /// Which addresses may be told of the end of a run (`webhook`), and how. Only those on the open internet unless given.
    pub fn webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = webhooks;
        self
    }

    /// Answers these routes too, beside its own: who asks is asked who they are, and the limits hold, as for the server's own. The
    /// router is [`axum`](crate::axum)'s; a path that the server has itself makes [`start`](Self::start) panic, as axum does.
    ///
    /// ```
    /// use hier_server::Server;
    /// use hier_server::axum::{Router, routing::get};
    ///
    /// let server = Server::new().routes(Router::new().route("/hello", get(async || "hello")));
    /// # let _ = server;
    /// ```
    pub fn routes(mut self, routes: Router) -> Self {
        self.routes = Some(self.routes.take().unwrap_or_default().merge(routes));
        self
    }

    /// Is cancelled when the server stops: for [routes](Self::routes) whose streams are to end then.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// How many runs this process does at once; 10 unless given.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.work.concurrency = runs;
        self
    }

    /// Limits the time of a run in this process without a break. A run that takes longer ends with the status `timeout`. Defaults to no
    /// limit. Servers and [workers](Self::worker) on one database each have their own limit.
    pub fn max_run_time(mut self, limit: Duration) -> Self {
        self.work.max_run_time = limit;
        self
    }

    /// Limits the number of supersteps of a run, even if the request has a higher `recursion_limit`. At least 1; defaults to no limit.
    /// Servers and [workers](Self::worker) on one database each have their own limit.
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.work.max_steps = steps;
        self
    }

    /// Leaves all runs to workers in other processes ([`Self::worker`]), and crons and webhooks, too.
    pub fn without_worker(mut self) -> Self {
        self.works = false;
        self
    }

    /// Hands all runs to somebody else: to a cluster, with `hier_restate::ClusterRunner`. This server keeps their rows and their events, and
    /// waits for their ends; the threads are kept where the runs are. What is claimed here takes a place of
    /// [`concurrency`](Self::concurrency) until it has ended, so that it says how many runs the cluster is given at once.
    pub fn runner(mut self, runner: impl Runner) -> Self {
        self.runner = Some(Box::new(runner));
        self
    }

    /// Serves no studio: the pages at `/studio`, which are there unless this is said.
    pub fn without_studio(mut self) -> Self {
        self.studio = Studio::Absent;
        self
    }

    /// Serves only the studio, on the database without its program: threads are shown, copied and pruned, and nothing runs. No
    /// graphs are needed, and those given are not served.
    pub fn only_studio(mut self) -> Self {
        self.studio = Studio::Alone;
        self.works = false;
        self.graphs.clear();
        self
    }

    async fn app(&mut self) -> Result<Arc<App>, ServerError> {
        if self.graphs.is_empty() && self.studio != Studio::Alone {
            return Err(ServerError::NoGraphs);
        }
        let database = match (self.opened.take(), &self.database) {
            (Some((runs, store)), _) => Database { runs, store },
            (None, Some(url)) => Database::open(url).await?,
            (None, None) => Database::memory(),
        };
        let mut graphs = std::mem::take(&mut self.graphs);
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
            auth: self.auth.clone().unwrap_or_else(|| Arc::new(Open)),
            limits: self.limits,
            webhooks: self.webhooks.clone(),
            metrics: Metrics::default(),
            stopping: self.stopping.clone(),
            tasks: TaskTracker::new(),
        });
        Sender::new(app.runs.clone(), app.webhooks.clone(), None).map_err(ServerError::Webhooks)?;
        make_assistants(&app).await?;
        Ok(app)
    }

    /// Serves until the process is told to stop (SIGTERM, or ctrl-c): then streams end, and runs are handed back to the
    /// database for others.
    pub async fn serve(self, address: impl fmt::Display) -> Result<(), ServerError> {
        self.start(address).await?.until_told().await
    }

    /// Begins to serve, in the background.
    pub async fn start(mut self, address: impl fmt::Display) -> Result<Running, ServerError> {
        let text = address.to_string();
        let listener = TcpListener::bind(&text).await.map_err(|error| ServerError::Listen { address: text, error })?;
        let address = listener.local_addr()?;
        if self.auth.is_none() && !self.open_to_all && !address.ip().is_loopback() {
            return Err(ServerError::Unprotected { address });
        }
        let origins = std::mem::take(&mut self.origins);
        let routes = self.routes.take().unwrap_or_default().layer(from_fn(layers::identified));
        let (works, own_work) = (self.works, self.work);
        let served = match self.studio {
            Studio::Beside => router().merge(studio::router()),
            Studio::Alone => studio::router(),
            Studio::Absent => router(),
        };
        let asks_nobody = self.auth.is_none() && !self.open_to_all;
        let app = self.app().await?;
        let mut service = layered(app.clone(), served.merge(routes.with_state(())), &origins)?;
        if asks_nobody {
            service = service.layer(from_fn_with_state(Arc::from(origins), cross_origin::guarded));
        }
        let (stop, tasks) = (app.stopping.clone(), app.tasks.clone());
        let working = works.then(|| tokio::spawn(work(app, own_work, Some(address), stop.clone())));
        let serving = tokio::spawn(serve(listener, service, stop.clone()));
        tracing::info!(%address, "serving");
        Ok(Running { address, stop, serving, working, tasks })
    }

    /// A worker without a server: it does runs that servers on the same database have taken.
    pub async fn worker(mut self) -> Result<Worker, ServerError> {
        let work = self.work;
        let app = self.app().await?;
        Ok(Worker { app, work })
    }
}

/// Creates the default assistant of each graph. It replaces an assistant with the same id that a user has created.
async fn make_assistants(app: &App) -> Result<(), ServerError> {
    let assistants = Assistants::of(&*app.runs);
    for (name, served) in &app.graphs {
        let mut new = NewAssistant::new(system_assistant(name).to_string(), name.clone());
        new.name = Some(served.graph.spec().name.to_string());
        new.metadata.insert(CREATED_BY.to_owned(), SYSTEM.into());
        match assistants.create(new.clone()).await {
            Err(error) if is_there(&error) => {}
            made => {
                made?;
                continue;
            }
        }
        let is_ours = |found: &Assistant| found.metadata.get(CREATED_BY).is_some_and(|by| *by == SYSTEM);
        if assistants.get(&new.id).await?.as_ref().is_none_or(is_ours) {
            continue;
        }
        tracing::warn!(assistant = new.id, graph = name, "deleted an assistant of a user whose id belongs to a graph");
        assistants.delete(&new.id).await?;
        match assistants.create(new).await {
            // Another server created it first.
            Err(error) if is_there(&error) => {}
            made => drop(made?),
        }
    }
    Ok(())
}

/// The routes with everything around them.
fn layered(app: Arc<App>, served: Router<Arc<App>>, origins: &[String]) -> Result<Router, ServerError> {
    let router = served
        .fallback(layers::not_found)
        .method_not_allowed_fallback(layers::wrong_method)
        .layer(DefaultBodyLimit::max(app.limits.body))
        .layer(from_fn_with_state(Arc::new(Around::new(app.clone())), layers::around))
        .layer(tower_http::catch_panic::CatchPanicLayer::custom(layers::panicked));
    let router = match cross_origin::layer(origins)? {
        Some(layer) => router.layer(layer),
        None => router,
    };
    Ok(router.with_state(app))
}
