//! Running servers and workers, and their shutdown.

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

/// Time that open requests have to finish after the server begins to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// A server that runs in the background. Dropping this value does not stop the server.
#[derive(Debug)]
pub struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    pub(crate) working: Option<JoinHandle<()>>,
    pub(crate) tasks: TaskTracker,
}

impl Running {
    /// Returns the address on which the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server, and waits until it has stopped. Open streams end, and runs in progress return to the queue.
    /// The server gives other open requests 10 seconds to finish.
    ///
    /// Cancel safety: after the first poll, the server stops even if the future is dropped.
    pub async fn stop(self) -> Result<(), ServerError> {
        self.serve_until(std::future::ready(())).await
    }

    /// Waits until the process receives a signal to stop (SIGTERM or Ctrl+C), and then stops the server as
    /// [`stop`](Self::stop) does. If the server fails before the signal, returns the error.
    ///
    /// Cancel safety: dropping the future does not stop the server.
    pub async fn until_signal(self) -> Result<(), ServerError> {
        self.serve_until(stop_signal()).await
    }

    async fn serve_until(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), ServerError> {
        tokio::select! {
            () = stop => {}
            ended = &mut self.serving => return ended.map_err(|error| std::io::Error::other(error).into()),
        }
        self.stop.cancel();
        if let Some(working) = self.working.take() {
            let _ = working.await;
        }
        let answered = async {
            let _ = (&mut self.serving).await;
            // No new task can start, because all requests have been answered.
            self.tasks.close();
            self.tasks.wait().await;
        };
        if tokio::time::timeout(SHUTDOWN_GRACE, answered).await.is_err() {
            self.serving.abort();
        }
        Ok(())
    }
}

/// Limits for runs in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkOptions {
    pub(crate) concurrency: usize,
    pub(crate) max_run_time: Duration,
    pub(crate) max_steps: usize,
}

impl Default for WorkOptions {
    fn default() -> Self {
        Self { concurrency: 10, max_run_time: Duration::MAX, max_steps: usize::MAX }
    }
}

/// A worker that does not serve HTTP. [`Server::worker`](crate::Server::worker) creates it.
#[derive(Debug)]
pub struct WorkerProcess {
    pub(crate) app: Arc<App>,
    pub(crate) work: WorkOptions,
}

impl WorkerProcess {
    /// Executes runs until the process receives a signal to stop (SIGTERM or Ctrl+C). Then the runs in progress return
    /// to the queue.
    ///
    /// If the future is dropped, other workers take over the runs when this worker's leases expire.
    pub async fn run_until_signal(self) {
        let stop = CancellationToken::new();
        let signalled = stop.clone();
        tokio::spawn(async move {
            stop_signal().await;
            signalled.cancel();
        });
        self.run_until(stop).await;
    }

    /// Executes runs until the token is cancelled. Then the runs in progress return to the queue.
    ///
    /// If the future is dropped, other workers take over the runs when this worker's leases expire.
    pub async fn run_until(self, stop: CancellationToken) {
        work(self.app, self.work, None, stop).await;
    }
}

/// Resolves when the process receives a signal to stop.
async fn stop_signal() {
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

fn worker(app: &App, work: WorkOptions) -> hier_worker::Worker {
    let worker = hier_worker::Worker::new(app.runs.clone()).store(app.store.clone());
    let worker = worker.concurrency(work.concurrency).max_run_time(work.max_run_time).max_steps(work.max_steps);
    app.graphs.iter().fold(worker, |worker, (name, served)| worker.dyn_graph(name.clone(), served.graph.clone()))
}

/// Executes runs and background jobs until the token is cancelled.
pub(crate) async fn work(app: Arc<App>, work: WorkOptions, own: Option<SocketAddr>, stop: CancellationToken) {
    let worker = worker(&app, work);
    // If the process has two workers, the first one gets the runs that are added here.
    let _ = app.worker.set(worker.handle());
    let runs = worker.run_until(stop.clone());
    tokio::join!(runs, background::run_until(app, own, stop));
}
