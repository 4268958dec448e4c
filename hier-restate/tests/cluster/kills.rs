//! Workers and servers that are killed at random instants: nothing is lost, nothing that was stored runs again, every thread ends.
//!
//! `HIER_TEST_KILLS` is the number of kills and defaults to 30. Each test has its own Restate server.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hier_core::Result;
use hier_core::graph::DynInput;
use hier_core::prelude::*;
use hier_restate::{Client, Endpoint, RemoteGraph, loopback, register};
use serde_json::json;
use tokio::net::TcpStream;

const LOG: &str = "HIER_CLUSTER_LOG";
const ADDRESS: &str = "HIER_CLUSTER_ADDRESS";
const ROUNDS: u64 = 4;
const WIDTH: u64 = 3;
/// The number of concurrent threads.
const THREADS: usize = 3;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Tree {
    #[reducer(sum)]
    done: u64,
    #[reducer(append)]
    rounds: Vec<u64>,
}

graph! {
    Inner<Tree, PathBuf> = Graph {
        nodes: [i1 = alone, i2 = beside, i3 = beside, i4 = alone],
        edges: [START >> i1 >> [i2, i3] >> i4 >> END],
    }
}

graph! {
    CrashTree<Tree, PathBuf> = Graph {
        nodes: [seed = alone, work, Inner, gather],
        edges: [
            START >> seed >> for item in items { work(item) },
            work >> Inner >> gather >> if is_over { END } else { seed },
        ],
    }
}

/// The number of tasks in a round.
const TASKS: u64 = 1 + WIDTH + 4;

async fn put_down(run: &Run<PathBuf>) -> Result<TreeUpdate> {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
    let line = format!("{}\n", run.idempotency_key());
    // One write of one line: whole in the file or not there.
    OpenOptions::new().create(true).append(true).open(run.context())?.write_all(line.as_bytes())?;
    Ok(Tree::update().done(1))
}

async fn alone(run: &Run<PathBuf>) -> Result<TreeUpdate> {
    put_down(run).await
}

async fn beside(run: &Run<PathBuf>) -> Result<TreeUpdate> {
    put_down(run).await
}

async fn work(Sent(_item): Sent<u64>, run: &Run<PathBuf>) -> Result<TreeUpdate> {
    put_down(run).await
}

async fn gather(state: &Tree) -> TreeUpdate {
    Tree::update().rounds([state.rounds.len() as u64])
}

fn items(_: &Tree) -> Vec<u64> {
    (0..WIDTH).collect()
}

fn is_over(state: &Tree) -> bool {
    state.rounds.len() as u64 == ROUNDS
}

/// A worker: this program, called with this test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that other tests start"]
async fn child_process() {
    let received = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("`{name}` is not set"));
    let (address, log) = (received(ADDRESS), PathBuf::from(received(LOG)));
    Endpoint::new().graph("tree", CrashTree::compile(), log).serve(&address).await.expect("it serves");
}

/// Workers behind one address, as behind a load balancer.
struct Workers {
    addresses: Vec<String>,
    log: PathBuf,
    running: Vec<Option<Child>>,
    /// Those that can be connected to.
    alive: Arc<Mutex<Vec<String>>>,
    front: SocketAddr,
}

impl Workers {
    async fn start(count: usize, log: &Path) -> Self {
        let alive: Arc<Mutex<Vec<String>>> = Arc::default();
        let (listener, front) = loopback().await.expect("a free port");
        let behind = alive.clone();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let behind = behind.clone();
                tokio::spawn(async move {
                    let chosen = fastrand::choice(behind.lock().unwrap().iter()).cloned();
                    let Some(chosen) = chosen else { return };
                    if let Ok(mut to) = TcpStream::connect(chosen).await {
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        let mut addresses = Vec::new();
        for _ in 0..count {
            addresses.push(loopback().await.expect("a free port").1.to_string());
        }
        let running = addresses.iter().map(|_| None).collect();
        let mut workers = Self { addresses, log: log.to_owned(), running, alive, front };
        for worker in 0..count {
            workers.begin(worker).await;
        }
        workers
    }

    async fn begin(&mut self, worker: usize) {
        let address = &self.addresses[worker];
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "kills::child_process"])
            .env(ADDRESS, address)
            .env(LOG, &self.log)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a worker starts");
        self.running[worker] = Some(child);
        for _ in 0..9_000 {
            if TcpStream::connect(address).await.is_ok() {
                self.alive.lock().unwrap().push(address.clone());
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("a worker does not listen");
    }

    fn kill(&mut self, worker: usize) {
        self.alive.lock().unwrap().retain(|address| *address != self.addresses[worker]);
        if let Some(mut child) = self.running[worker].take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it is gone");
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        (0..self.addresses.len()).for_each(|worker| self.kill(worker));
    }
}

/// A Restate server, or several nodes.
struct Server {
    folder: tempfile::TempDir,
    /// Of each node.
    ingresses: Vec<String>,
    admin: String,
}

impl Server {
    fn script(arguments: &[&str]) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/restate.sh");
        let output = Command::new(script).args(arguments).stderr(Stdio::inherit()).output().expect("the script runs");
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn start(nodes: usize) -> Self {
        let folder =
            tempfile::tempdir_in(if Path::new("/dev/shm").exists() { "/dev/shm" } else { "/tmp" }).expect("a folder");
        let said = Self::script(&["start", &folder.path().to_string_lossy(), &nodes.to_string()]);
        let urls = said.lines().map(|line| line.split_once(' ').expect("an ingress and an admin API"));
        let (ingresses, admins): (Vec<_>, Vec<_>) = urls.map(|(ingress, admin)| (ingress.to_owned(), admin)).unzip();
        Self { folder, ingresses, admin: admins[0].to_owned() }
    }

    /// A client that continues at another node when its own is killed.
    fn client(&self) -> Client {
        let client = Client::new(&self.ingresses[0]).patience(Duration::from_mins(2));
        self.ingresses[1..].iter().fold(client, Client::another_ingress)
    }

    fn crash(&self, node: Option<usize>) {
        let (path, node) = (self.folder.path().to_string_lossy().into_owned(), node.map(|node| node.to_string()));
        let arguments = ["crash", &path].into_iter().chain(node.as_deref()).collect::<Vec<_>>();
        Self::script(&arguments);
        Self::script(&["start", &path]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        Self::script(&["stop", &self.folder.path().to_string_lossy()]);
    }
}

fn lines(log: &Path) -> Vec<String> {
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The thread and the superstep of the root graph that a key belongs to; none for keys of tasks inside of others.
fn place(key: &str) -> Option<(String, i64)> {
    let parts: Vec<&str> = key.split('/').collect();
    let [thread, "", step, _] = parts[..] else { return None };
    Some((thread.to_owned(), step.parse().ok()?))
}

/// Runs threads until they have ended, and kills meanwhile.
async fn survive(nodes: usize, what: &[&str]) {
    let kills: usize = std::env::var("HIER_TEST_KILLS").map_or(30, |kills| kills.parse().expect("a number"));
    let server = Server::start(nodes);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut workers = Workers::start(2, &log).await;
    register(&server.admin, &format!("http://{}", workers.front)).await.expect("the workers are registered");
    let graph = server.client().graph("tree");
    let (mut killed, mut ended) = (0, 0);
    // The stored tasks of a moment, and the length of the log.
    let mut known: Vec<(usize, String, i64)> = Vec::new();
    while killed < kills {
        let running: Vec<_> = (0..THREADS)
            .map(|number| {
                let (graph, thread) = (graph.clone(), format!("t{}", ended + number));
                tokio::spawn(async move { finish(&graph, &thread).await })
            })
            .collect();
        while killed < kills && running.iter().any(|run| !run.is_finished()) {
            for number in 0..THREADS {
                let (thread, before) = (format!("t{}", ended + number), lines(&log).len());
                if let Ok(Ok(state)) = tokio::time::timeout(Duration::from_secs(30), graph.state(&*thread)).await {
                    known.push((before.max(lines(&log).len()), thread, state.step));
                }
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(10..400))).await;
            match what[killed % what.len()] {
                "worker" => {
                    let worker = fastrand::usize(0..2);
                    workers.kill(worker);
                    workers.begin(worker).await;
                }
                "all workers" => {
                    workers.kill(0);
                    workers.kill(1);
                    workers.begin(0).await;
                    workers.begin(1).await;
                }
                "server" => server.crash(None),
                _ => server.crash(Some(fastrand::usize(1..=nodes))),
            }
            killed += 1;
        }
        for run in running {
            run.await.expect("the thread ends");
        }
        ended += THREADS;
    }
    let log = lines(&log);
    for (length, thread, step) in &known {
        let again: Vec<&String> = log[(*length).min(log.len())..]
            .iter()
            .filter(|key| place(key).is_some_and(|(of, at)| of == *thread && at <= *step))
            .collect();
        assert!(again.is_empty(), "stored as step {step}, and run again: {again:?}");
    }
    let mut keys = log.clone();
    keys.sort();
    keys.dedup();
    let wanted = usize::try_from(ROUNDS * TASKS).unwrap() * ended;
    assert_eq!(keys.len(), wanted, "each task has its own key and ran");
    println!("{killed} kills, {ended} threads, {} of {wanted} tasks cut off and done again", log.len() - wanted);
}

/// Runs a thread to its end, and checks it.
async fn finish(graph: &RemoteGraph, thread: &str) {
    let outcome = graph.invoke(DynInput::New(json!({}))).thread(thread).await.expect("the run ends");
    let rounds: Vec<u64> = (0..ROUNDS).collect();
    assert!(outcome.is_finished());
    assert_eq!(outcome.state(), &json!({ "done": ROUNDS * TASKS, "rounds": rounds }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn threads_survive_kills_of_workers_and_server() {
    survive(1, &["worker", "worker", "all workers", "server"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow on a small machine, with three nodes: run ./scripts/restate.sh with cargo test … -- --ignored of_three"]
async fn threads_survive_kills_of_one_node_of_three() {
    survive(3, &["worker", "node", "all workers"]).await;
}
