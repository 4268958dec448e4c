//! Durable steps under kills: a recorded step never runs again, at three levels of graphs, with checkpoints and without.
//!
//! `HIER_STEP_KILLS` says how many processes are killed: 40 unless it is set.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::checkpoint::{Checkpointer, ListQuery, WhenRunning, codec};

use crate::place::{Place, open};
use crate::victim::{LOG, PLACE, THREAD};

/// The numbers of rounds of a thread and of steps of a task.
const ROUNDS: u64 = 3;
const STEPS: usize = 3;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Work {
    #[reducer(sum)]
    round: u64,
    #[reducer(append)]
    done: Vec<String>,
}

type Log = Option<PathBuf>;

graph! { Inner<Work, Log> = Graph { nodes: [i1 = works, i2 = works], edges: [START >> [i1, i2] >> END] } }
graph! { Unkept<Work, Log> = Graph { nodes: [u1 = works, u2 = works], edges: [START >> u1 >> u2 >> END] } }
graph! {
    Middle<Work, Log> = Graph {
        nodes: [m1 = works, Inner, Unkept { checkpoints: none }],
        edges: [START >> m1 >> [Inner, Unkept] >> END],
    }
}
graph! {
    Outer<Work, Log> = Graph {
        nodes: [begin, o1 = works, Middle, gather],
        edges: [
            START >> begin >> [o1, Middle] >> gather,
            gather >> if is_over { END } else { begin },
        ],
    }
}

async fn begin() -> WorkUpdate {
    Work::update().round(1)
}

async fn gather() {}

fn is_over(state: &Work) -> bool {
    state.round >= ROUNDS
}

/// Takes steps that log their names, and waits now and then.
async fn works(state: &Work, run: &Run<Log>) -> Result<WorkUpdate> {
    let mut done = Vec::new();
    for number in 0..STEPS {
        let name = format!("{}-{}-{number}", run.node(), state.round);
        let log = run.context().as_deref();
        done.push(run.step(&name, async || put_down(log, name.clone()).await).await?);
    }
    Ok(Work::update().done(done))
}

async fn put_down(log: Option<&Path>, name: String) -> Result<String> {
    if let Some(log) = log {
        tokio::time::sleep(Duration::from_micros(fastrand::u64(100..1500))).await;
        // One write of one line: whole in the file or not there.
        OpenOptions::new().create(true).append(true).open(log)?.write_all(format!("{name}\n").as_bytes())?;
    }
    Ok(name)
}

/// Runs the thread to its end.
#[test]
#[ignore = "a process that other tests start"]
fn child_process() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("`{name}` is not set"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let graph = Outer::compile().checkpointer(open(&variable(PLACE)).await);
        let config = Config::new().thread(variable(THREAD)).when_running(WhenRunning::TakeOver);
        let log = Some(PathBuf::from(variable(LOG)));
        let begun = graph.state(config.clone()).await.expect("the thread can be read").checkpoint.is_some();
        println!("\nready");
        let end = if begun {
            graph.invoke(()).config(config).context(log).await
        } else {
            graph.invoke(Work::update()).config(config).context(log).await
        };
        assert!(end.unwrap_or_else(|error| panic!("{error}")).is_finished());
        println!("\nfinished");
    });
}

/// The names of the steps whose results are recorded.
fn recorded(place: &Place, thread: &str) -> BTreeSet<String> {
    let name = place.name();
    place.runtime.block_on(async {
        let saver = open(&name).await;
        let query = ListQuery { namespace: None, ..ListQuery::thread(thread) };
        let mut found = BTreeSet::new();
        for at in saver.list(query).await.expect("the thread can be listed") {
            let read = saver.get(thread, &at.namespace, Some(at.checkpoint.id)).await.expect("it can be read");
            let writes = read.into_iter().flat_map(|saved| saved.writes).flat_map(|task| task.writes);
            for write in writes.filter(|write| &*write.channel == "__step__") {
                let record = codec::decode_json(&write.value).expect("a step");
                found.insert(record["key"]["name"].as_str().expect("its name").to_owned());
            }
        }
        found
    })
}

fn lines(log: &Path) -> Vec<String> {
    // The process may have died before its first.
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn survives(place: &Place, kills: usize) {
    let (mut killed, mut threads, mut again) = (0, 0, 0);
    while killed < kills {
        threads += 1;
        let (thread, log) = (format!("s{threads}"), place.folder.path().join(format!("s{threads}.log")));
        let (mut known, mut seen) = (BTreeSet::new(), 0);
        loop {
            let at_most = (killed < kills).then(|| Duration::from_micros(fastrand::u64(500..30_000)));
            let finished = live(place, &thread, &log, at_most);
            let ran = lines(&log);
            let twice: Vec<&String> = ran[seen..].iter().filter(|name| known.contains(*name)).collect();
            assert!(twice.is_empty(), "these steps were recorded, and were done again: {twice:?}");
            (seen, known) = (ran.len(), recorded(place, &thread));
            if finished {
                let names: BTreeSet<String> = ran.iter().cloned().collect();
                // In each round `o1`, `m1`, `i1`, `i2`, `u1` and `u2`.
                assert_eq!(names.len(), usize::try_from(ROUNDS).expect("few") * 6 * STEPS);
                assert_eq!(names, known, "each is recorded");
                again += ran.len() - names.len();
                break;
            }
            killed += 1;
        }
    }
    println!("{killed} kills, {threads} threads; {again} steps were cut off before they were recorded, and done again");
    place.check();
}

/// Lets a process run: for this long, or until it ends. Returns whether it has finished the thread.
fn live(place: &Place, thread: &str, log: &Path, at_most: Option<Duration>) -> bool {
    let mut process = Process::new(std::env::current_exe().expect("this test"))
        .args(["steps::child_process", "--exact", "--ignored", "--nocapture"])
        .env(PLACE, place.name())
        .env(THREAD, thread)
        .env(LOG, log)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut said = BufReader::new(process.stdout.take().expect("its output")).lines().map_while(Result::ok);
    if let Some(time) = at_most
        && said.by_ref().any(|line| line == "ready")
    {
        std::thread::sleep(time);
        process.kill().expect("it can be killed");
    }
    let finished = said.any(|line| line == "finished");
    let status = process.wait().expect("it has ended");
    assert!(at_most.is_some() || status.success(), "the process failed");
    finished
}

fn kills() -> usize {
    std::env::var("HIER_STEP_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40)
}

#[test]
fn recorded_steps_survive_kills_on_sqlite() {
    survives(&Place::sqlite(), kills());
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn recorded_steps_survive_kills_on_postgres() {
    let place = Place::postgres();
    survives(&place, kills().min(100));
}
