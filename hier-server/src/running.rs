//! Servers and workers that run, until the process is told to stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hier_core::CancellationToken;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::background;
use crate::failure::ServerError;

/// How long a server that stops waits for those whom it still answers.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A server that is serving. Dropping it does not stop it.
#[derive(Debug)]
pub struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    pub(crate) working: Option<JoinHandle<()>>,
    pub(crate) tasks: TaskTracker,
}

impl Running {
    /// The address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: streams end, runs are handed back, and what is still being answered or written has ten seconds.
    pub async fn stop(self) -> Result<(), ServerError> {
        self.until(std::future::ready(())).await
    }

    /// Serves until the process is told to stop (SIGTERM, or ctrl-c), and stops then.
    pub async fn until_told(self) -> Result<(), ServerError> {
        self.until(told_to_stop()).await
    }

    async fn until(mut self, told: impl Future<Output = ()> + Send) -> Result<(), ServerError> {
        tokio::select! {
            () = told => {}
            ended = &mut self.serving => return ended.map_err(|error| std::io::Error::other(error).into()),
        }
        self.stop.cancel();
        if let Some(working) = self.working.take() {
            let _ = working.await;
        }
        let answered = async {
            let _ = (&mut self.serving).await;
            // None begins any more: whoever could ask has been answered.
            self.tasks.close();
            self.tasks.wait().await;
        };
        if tokio::time::timeout(LAST_WORDS, answered).await.is_err() {
            self.serving.abort();
        }
        Ok(())
    }
}

/// How runs are done in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) concurrency: usize,
    pub(crate) max_run_time: Duration,
    pub(crate) max_steps: usize,
}

impl Default for Work {
    fn default() -> Self {
        Self { concurrency: 10, max_run_time: Duration::MAX, max_steps: usize::MAX }
    }
}

/// A worker without a server.
#[derive(Debug)]
pub struct Worker {
    pub(crate) app: Arc<App>,
    pub(crate) work: Work,
}

impl Worker {
    /// Works until the process is told to stop (SIGTERM, or ctrl-c).
    pub async fn run(self) {
        let stop = CancellationToken::new();
        let told = stop.clone();
        tokio::spawn(async move {
            told_to_stop().await;
            told.cancel();
        });
        self.run_until(stop).await;
    }

    /// Works until the token is cancelled: then its runs are handed back.
    pub async fn run_until(self, stop: CancellationToken) {
        work(self.app, self.work, None, stop).await;
    }
}

/// Resolves when the process is told to stop.
async fn told_to_stop() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return interrupt.await };
        tokio::select! {
            () = interrupt => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    interrupt.await;
}

fn worker(app: &App, work: Work) -> hier_worker::Worker {
    let worker = hier_worker::Worker::new(app.runs.clone()).memory(app.store.clone());
    let worker = worker.concurrency(work.concurrency).max_run_time(work.max_run_time).max_steps(work.max_steps);
    app.graphs.iter().fold(worker, |worker, (name, served)| worker.dyn_graph(name.clone(), served.graph.clone()))
}

/// Does runs, and what is done beside them, until the token is cancelled.
pub(crate) async fn work(app: Arc<App>, work: Work, own: Option<SocketAddr>, stop: CancellationToken) {
    let worker = worker(&app, work);
    // Of two in one process, the first has what is added here.
    let _ = app.worker.set(worker.handle());
    let runs = worker.run_until(stop.clone());
    tokio::join!(runs, background::run_until(app, own, stop));
}
