//! The time of a wide superstep grows with the number of its tasks.

use std::time::{Duration, Instant};

use hier_core::checkpoint::MemorySaver;
use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default)]
struct Fan {
    numbers: Vec<u64>,
    #[reducer(sum)]
    total: u64,
}

fn numbers(state: &Fan) -> Vec<u64> {
    state.numbers.clone()
}

async fn counts(Sent(number): Sent<u64>, run: &Run) -> hier_core::Result<FanUpdate> {
    let number = run.step("count", async || Ok(number)).await?;
    Ok(Fan::update().total(number))
}

graph! { Wide<Fan> = Graph { nodes: [counts], edges: [START >> for number in numbers { counts(number) }, counts >> END] } }

/// Returns the shortest time of three runs of this many tasks.
async fn shortest(tasks: u64) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let graph = Wide::compile().checkpointer(MemorySaver::new());
        let began = Instant::now();
        let end = graph.invoke(Fan::update().numbers((0..tasks).collect::<Vec<_>>())).thread("t").await;
        assert_eq!(end.unwrap().state().total, tasks * (tasks - 1) / 2);
        shortest = shortest.min(began.elapsed());
    }
    shortest
}

#[tokio::test]
async fn steps_of_many_tasks_take_linear_time() {
    let (few, many) = (shortest(500).await, shortest(8_000).await);
    // Linear time is 16 times as long, quadratic time 256 times.
    assert!(many < few * 64, "500 tasks: {few:?}, 8,000 tasks: {many:?}");
}
