//! The example `crash_target`, driven from outside as a user would.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use super::books::{committed, keys, nothing_again};
use super::place::{Place, open};

const ROUNDS: usize = 6;
const WIDTH: usize = 4;

/// Kills the example this many times, and runs each of its threads to its end.
pub(crate) fn survives(place: &Place, kills: usize) {
    let (mut killed, mut threads) = (0, 0);
    while killed < kills {
        threads += 1;
        let thread = format!("target{threads}");
        let log = place.folder.path().join(format!("{thread}.log"));
        let (mut done, mut seen) = (BTreeSet::new(), 0);
        let end = loop {
            let mut process = command(place, &thread, &log).spawn().expect("the example runs");
            if killed < kills {
                std::thread::sleep(Duration::from_micros(fastrand::u64(10_000..90_000)));
                if process.try_wait().expect("a process").is_none() {
                    process.kill().expect("it can be killed");
                    killed += 1;
                }
            }
            let output = process.wait_with_output().expect("a process");
            let ran = keys(&log);
            nothing_again(&done, &ran[seen..]);
            seen = ran.len();
            done = place.runtime.block_on(async { committed(&*open(&place.name()).await, &thread, &ran).await });
            if output.status.success() {
                break output.stdout;
            }
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.is_empty(), "it failed by itself: {said}");
        };
        check_end(place, &thread, &log, &end, &done);
    }
    place.check();
}

/// It prints the expected lines. Started again, it prints the same and runs nothing.
fn check_end(place: &Place, thread: &str, log: &Path, end: &[u8], done: &BTreeSet<String>) {
    let state: serde_json::Value = serde_json::from_slice(end).expect("one line of JSON");
    let rounds: Vec<usize> = (0..ROUNDS).collect();
    assert_eq!(state, serde_json::json!({ "done": ROUNDS * WIDTH, "rounds": rounds }));
    assert_eq!(done.len(), ROUNDS * WIDTH, "each task was committed");
    let before = keys(log);
    let again = command(place, thread, log).output().expect("the example runs");
    assert_eq!((again.stdout.as_slice(), keys(log)), (end, before));
}

fn command(place: &Place, thread: &str, log: &Path) -> Command {
    let mut command = Command::new(example());
    command.args(["--db", &place.name(), "--thread", thread, "--log"]).arg(log);
    command.args(["--rounds", &ROUNDS.to_string(), "--width", &WIDTH.to_string(), "--delay-ms", "4"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn example() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| hier_tests::example("crash_target"))
}
