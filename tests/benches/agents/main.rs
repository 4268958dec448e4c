//! The cost of calling a subagent: with a short and a long conversation, with one and with a thousand declared subagents. The cost of
//! a tool call above its model's time, and of a chat turn on SQLite.
//!
//! `cargo bench --package hier-tests --bench agents`

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use hier_agents::{AgentBuilder, Messages, Subagent, SubagentPolicy};
use hier_sqlite::Sqlite;

use hier_agents::prelude::*;
use hier_core::graph::{CompiledGraph, GraphBuilder, Task};
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::json;

/// The number of calls of the subagent in a run.
const CALLS: u32 = 200;

/// A graph that answers at once.
fn clerk(name: &str) -> CompiledGraph<BaseState, BaseContext> {
    let mut clerk = GraphBuilder::<BaseState, BaseContext>::new(name);
    clerk = clerk.node("answer", async |_: Task<BaseState, BaseContext>| {
        Ok::<_, NodeError>(BaseState::update().current_agent_report("done"))
    });
    clerk = clerk.edge(START, "answer").edge("answer", END);
    clerk.compile().expect("a graph")
}

/// A supervisor with this many subagents.
fn desk(subagents: usize) -> CompiledGraph<BaseState, BaseContext> {
    let desk = AgentBuilder::<BaseState>::react("desk").max_iterations(CALLS + 10);
    let subagents = (0..subagents).map(|number| {
        let policy = SubagentPolicy::new().merge_fields(["file_refs"]);
        Subagent::new(&clerk(&format!("clerk_{number}"))).policy(policy)
    });
    subagents.fold(desk, AgentBuilder::subagent).compile_as_root().expect("a hierarchy")
}

/// The time from the first to the last call of a subagent in a run, for one call: what the model is asked, the subagent,
/// and its returned writes.
async fn time(desk: &CompiledGraph<BaseState, BaseContext>, history: &Messages) -> Duration {
    let asked = Arc::new(Mutex::new(Vec::with_capacity(CALLS as usize + 1)));
    let times = asked.clone();
    let model = ScriptedModel::reacting(move |_| {
        let mut times = times.lock().expect("the times");
        times.push(Instant::now());
        let (name, args) = if times.len() <= CALLS as usize {
            ("clerk_0", json!({ "task": "answer" }))
        } else {
            ("finish_task", json!({ "result": "done" }))
        };
        Message::calls("", [ToolCall { name: name.to_owned(), args, id: times.len().to_string() }])
    });
    let context = BaseContext::new(model.without_requests());
    let config = Config::new().recursion_limit(10_000);
    let out = desk
        .invoke(BaseState::update().messages(history.clone()))
        .config(config)
        .context(context)
        .await
        .expect("a run");
    assert_eq!(out.state().current_agent_report, "done");
    let asked = asked.lock().expect("the times");
    (asked[CALLS as usize] - asked[0]) / CALLS
}

fn bench(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut group = criterion.benchmark_group("subagent call");
    let mut measure = |name: &str, subagents: usize, messages: usize| {
        let desk = desk(subagents);
        let history: Messages = (0..messages).map(|number| Message::user(format!("message {number}"))).collect();
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| runtime.block_on(time(&desk, &history))).sum());
        });
    };
    measure("10 messages before", 1, 10);
    measure("10,000 messages before", 1, 10_000);
    measure("1,000 subagents declared", 1_000, 10);
    group.finish();
}

graph! {
    /// Counts, call by call.
    Counter<BaseState> = Agent { tools: [count], max_iterations: 10_000 }
}

/// Counts.
#[tool]
async fn count(number: u64) -> String {
    number.to_string()
}

/// The time of a run in which a tool is called so often, one call at a time, for one call: the answer of the model, whose own time is that
/// of making a message, the tool, and both steps.
async fn tool_calls(counter: &CompiledGraph<BaseState, BaseContext>, calls: u64) -> Duration {
    let asked = Arc::new(AtomicU64::new(0));
    let model = ScriptedModel::reacting(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        number if number < calls => Message::call("count", json!({ "number": number })),
        _ => Message::assistant("done"),
    });
    let context = BaseContext::new(model.without_requests());
    let config = Config::new().recursion_limit(100_000);
    let begun = Instant::now();
    let out = counter.invoke(Message::user("count")).config(config).context(context).await.expect("a run");
    assert_eq!(out.state().messages.len() as u64, 2 * calls + 2);
    begun.elapsed() / u32::try_from(calls).unwrap_or(u32::MAX)
}

fn tools(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let counter = Counter::compile();
    criterion.bench_function("tool call", |bencher| {
        bencher.iter_custom(|times| (0..times).map(|_| runtime.block_on(tool_calls(&counter, 200))).sum());
    });
}

/// A turn of a chat: a message arrives, the model answers, both are stored. Each turn is a separate run on a thread of 100 messages.
fn turns(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let chat = runtime.block_on(async {
        let saver = Sqlite::open(folder.path().join("chat.db")).await.expect("a file");
        Counter::compile().checkpointer(saver)
    });
    let context = BaseContext::new(ScriptedModel::reacting(|_| Message::assistant("yes")).without_requests());
    let mut thread = 0_u64;
    criterion.bench_function("chat turn on SQLite", |bencher| {
        bencher.iter_custom(|times| {
            let (mut spent, mut left) = (Duration::ZERO, times);
            while left > 0 {
                thread += 1;
                let config = Config::new().thread(format!("chat-{thread}"));
                let talk = (0..50).flat_map(|_| [Message::user("and?"), Message::assistant("yes")]);
                let input = BaseState::update().messages(talk.chain([Message::user("go")]).collect::<Vec<_>>());
                let _ = runtime
                    .block_on(chat.invoke(input).config(config.clone()).context(context.clone()).into_future())
                    .expect("a run");
                let turns = left.min(50);
                let begun = Instant::now();
                runtime.block_on(async {
                    for _ in 0..turns {
                        let out = chat
                            .invoke(Message::user("and?"))
                            .config(config.clone())
                            .context(context.clone())
                            .await
                            .expect("a run");
                        assert!(out.is_finished());
                    }
                });
                spent += begun.elapsed();
                left -= turns;
            }
            spent
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = bench, tools, turns
}
criterion_main!(benches);
