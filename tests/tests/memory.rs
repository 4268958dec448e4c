//! The memory of a run does not grow with the number of its steps.

#![cfg(target_os = "linux")]

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Counter {
    count: u64,
    until: u64,
    #[reducer(sum)]
    both: u64,
}

async fn count(state: &Counter) -> CounterUpdate {
    Counter::update().count(state.count + 1)
}

async fn left() -> CounterUpdate {
    Counter::update().both(1)
}

async fn right() -> CounterUpdate {
    Counter::update().both(1)
}

fn more(state: &Counter) -> bool {
    state.count < state.until
}

graph! {
    Loop<Counter> = Graph {
        nodes: [count, left, right],
        edges: [
            START >> count >> if more { [left, right] } else { END },
            [left, right] >> count,
        ],
    }
}

/// Kilobytes of this process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the line of resident memory");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of kilobytes")
}

async fn run(steps: u64) {
    let config = Config::new().recursion_limit(usize::MAX / 2);
    let outcome = Loop::compile().invoke(Counter::update().until(steps)).config(config).await;
    assert_eq!(outcome.expect("the loop ends").state().both, 2 * (steps - 1));
}

#[tokio::test]
async fn memory_does_not_grow_with_the_number_of_steps() {
    run(2_000).await;
    let before = resident();
    run(50_000).await;
    let grown = resident().saturating_sub(before);
    // A kept step would cost some hundred bytes: 50,000 of them at least 5 MB.
    assert!(grown < 2_048, "{grown} KB more after 25 times as many steps");
}
