//! The tax filing of langgraph-hierarchies in hier and in Python: `scripts/bench.sh tax-filing`.
//!
//! Both sides have equal hierarchies and scripts, and no network, so that only the hierarchy is measured. Without
//! `HIER_REFERENCE_PYTHON` (the script sets it) only this side is measured.

mod agents;
mod script;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hier_agents::prelude::*;
use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_sqlite::Sqlite;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use agents::{Tax, TaxRoot};

/// The storage of the checkpoints.
#[derive(Clone, Copy, PartialEq)]
enum Saver {
    None,
    Memory,
    Sqlite,
}

/// One way to run it.
struct Row {
    saver: Saver,
    positions: usize,
    best: Duration,
    /// On disk.
    bytes: Option<u64>,
}

const SMALL: usize = 200;
const LARGE: usize = 3_200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // For a profiler: one way only, so often.
    if let [_, saver, positions, times, ..] = &arguments[..]
        && let (Some(saver), Ok(positions), Ok(times)) = (saver_of(saver), positions.parse(), times.parse())
    {
        println!("{}", report(&runtime.block_on(measure(saver, positions, times))?));
        return Ok(());
    }
    let mut rows = Vec::new();
    for (positions, times) in [(SMALL, 10), (LARGE, 3)] {
        for saver in [Saver::None, Saver::Memory, Saver::Sqlite] {
            rows.push(runtime.block_on(measure(saver, positions, times))?);
        }
    }
    for row in &rows {
        println!("{}", report(row));
    }
    growth(&rows);
    if let Ok(python) = std::env::var("HIER_REFERENCE_PYTHON") {
        compare(&rows, Path::new(&python));
    }
    Ok(())
}

fn saver_of(name: &str) -> Option<Saver> {
    match name {
        "none" => Some(Saver::None),
        "memory" => Some(Saver::Memory),
        "sqlite" => Some(Saver::Sqlite),
        _ => None,
    }
}

/// The best of several runs, each of a new thread in a new place.
async fn measure(saver: Saver, positions: usize, times: usize) -> Result<Row, Box<dyn std::error::Error>> {
    let mut row = Row { saver, positions, best: Duration::MAX, bytes: None };
    for _ in 0..times {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("tax.db");
        let sqlite = if saver == Saver::Sqlite { Some(Sqlite::open(&file).await?) } else { None };
        let mut root = TaxRoot::compile_as_root();
        let checkpointer: Option<Arc<dyn Checkpointer>> = match (saver, &sqlite) {
            (Saver::Memory, _) => Some(Arc::new(MemorySaver::new())),
            (_, Some(sqlite)) => Some(Arc::new(sqlite.clone())),
            _ => None,
        };
        if let Some(checkpointer) = checkpointer {
            root = root.checkpointer(checkpointer);
        }
        let model = ScriptedModel::new(script::script(positions)).without_requests();
        let context = BaseContext::new(model.clone());
        let config = if saver == Saver::None { Config::default() } else { Config::new().thread("case") };
        let config = config.recursion_limit(positions * 8 + 100);
        let begin = Instant::now();
        let outcome = root.invoke(Tax::update()).config(config).context(context).await?;
        row.best = row.best.min(begin.elapsed());
        check(&outcome, &model, positions);
        drop(root);
        if let Some(sqlite) = sqlite {
            sqlite.close().await?;
            row.bytes = Some(std::fs::metadata(&file)?.len());
        }
    }
    Ok(row)
}

/// Checks that the run did its work.
fn check(outcome: &Outcome<Tax>, model: &ScriptedModel, positions: usize) {
    assert_eq!(model.call_count(), script::calls(positions), "the model is asked as often as there");
    assert_eq!(ours(outcome), expected(positions), "the end is the same as there");
}

fn ours(outcome: &Outcome<Tax>) -> Value {
    let Tax { base, artifact } = outcome.state();
    let todo = base.todo_list.iter().map(|(item, done)| (item.to_owned(), Value::Bool(done)));
    json!({
        "report": base.current_agent_report,
        "artifact": artifact,
        "finished": base.is_finished,
        "todo": todo.collect::<serde_json::Map<_, _>>(),
    })
}

/// The output of the Python program with `--json`, which [`compare`] checks.
fn expected(positions: usize) -> Value {
    json!({
        "report": format!("FILED {positions}"),
        "artifact": "FILED(RECONCILIATION)",
        "finished": true,
        "todo": {
            "evidence": true, "extraction": true, "matching": true, "reconciliation": true, "reporting": true,
        },
    })
}

fn report(Row { saver, positions, best, bytes }: &Row) -> String {
    let bytes = bytes.map_or(String::new(), |bytes| format!(", {:.2} MB on disk", megabytes(bytes)));
    format!("{positions} positions, {}: {:.1} ms{bytes}", name(*saver), milliseconds(*best))
}

fn name(saver: Saver) -> &'static str {
    match saver {
        Saver::None => "no saver",
        Saver::Memory => "memory saver",
        Saver::Sqlite => "SQLite",
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[allow(clippy::cast_precision_loss)] // files are smaller than that
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Prints the growth of the costs with the positions.
fn growth(rows: &[Row]) {
    let (small, large) = rows.split_at(rows.len() / 2);
    for (small, large) in small.iter().zip(large) {
        let time = milliseconds(large.best) / milliseconds(small.best);
        let bytes = small.bytes.zip(large.bytes).map(|(small, large)| megabytes(large) / megabytes(small));
        let bytes = bytes.map_or(String::new(), |ratio| format!(", {ratio:.1} times the bytes"));
        println!("{LARGE} positions and {SMALL}, {}: {time:.1} times the time{bytes}", name(small.saver));
    }
}

/// Runs the Python program, and prints both as a table.
fn compare(rows: &[Row], python: &Path) {
    println!("\n| 200 positions, 622 model calls | hier | langgraph-hierarchies 0.0.8 | ratio |\n|---|---:|---:|---:|");
    for row in rows.iter().filter(|row| row.positions == SMALL && row.saver != Saver::Memory) {
        let here = milliseconds(row.best);
        let there = match reference(python, row.saver) {
            Ok(there) => there,
            // Now and then its encoder crashes.
            Err(error) => {
                println!("| {} | {here:.1} ms | {error} | |", name(row.saver));
                continue;
            }
        };
        let ratio = there.milliseconds / here;
        println!("| {} | {here:.1} ms | {:.0} ms | {ratio:.0}× |", name(row.saver), there.milliseconds);
        if let (Some(here), Some(there)) = (row.bytes, there.bytes) {
            let (here, there) = (megabytes(here), megabytes(there));
            println!("| … on disk | {here:.1} MB | {there:.0} MB | {:.0}× |", there / here);
        }
    }
    println!("\nThe reference's memory saver fails from 100 positions on.");
}

struct There {
    milliseconds: f64,
    bytes: Option<u64>,
}

/// Runs the Python program once, because it is slow.
fn reference(python: &Path, saver: Saver) -> Result<There, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/tax_filing.py");
    let mut command = Command::new(python);
    command.arg(script).arg(SMALL.to_string()).arg("--json").current_dir(folder.path());
    if saver == Saver::Sqlite {
        command.args(["--checkpoint", "sqlite"]);
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = || format!("failed ({}) {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    let (first, end) = text.split_once('\n').ok_or_else(failed)?;
    let seconds: f64 = first.split(' ').next().unwrap_or_default().parse()?;
    let end: Value = serde_json::from_str(end)?;
    let expected = expected(SMALL);
    for (key, value) in expected.as_object().into_iter().flatten() {
        assert_eq!(&end[key], value, "`{key}` of the reference");
    }
    let file = folder.path().join("tax_ref.sqlite");
    let bytes = std::fs::metadata(file).ok().map(|file| file.len());
    Ok(There { milliseconds: seconds * 1e3, bytes })
}
