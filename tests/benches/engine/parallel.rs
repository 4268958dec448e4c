//! Tasks that keep their thread, and tasks that wait.

use std::time::{Duration, Instant};

use criterion::Criterion;
use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Load {
    tasks: u64,
    millis: u64,
    #[reducer(sum)]
    done: u64,
}

fn jobs(state: &Load) -> Vec<u64> {
    vec![state.millis; usize::try_from(state.tasks).unwrap_or_default()]
}

async fn compute(Sent(millis): Sent<u64>) -> LoadUpdate {
    let until = Instant::now() + Duration::from_millis(millis);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    Load::update().done(1)
}

async fn wait(Sent(millis): Sent<u64>) -> LoadUpdate {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Load::update().done(1)
}

graph! {
    Compute<Load> = Graph {
        nodes: [compute],
        edges: [START >> for job in jobs { compute(job) }, compute >> END],
    }
}

graph! {
    Wait<Load> = Graph {
        nodes: [wait],
        edges: [START >> for job in jobs { wait(job) }, wait >> END],
    }
}

pub(crate) fn benches(c: &mut Criterion) {
    let runtime = crate::runtime();
    let mut group = c.benchmark_group("parallel");
    group.sample_size(10);
    let graph = Compute::compile();
    group.bench_function("8 tasks of 10 ms of work", |b| {
        b.to_async(&runtime).iter(|| async {
            let input = Load { tasks: 8, millis: 10, done: 0 };
            graph.invoke(input).await.expect("it ends")
        });
    });
    let graph = Wait::compile();
    group.bench_function("16 tasks that wait 20 ms", |b| {
        b.to_async(&runtime).iter(|| async {
            let input = Load { tasks: 16, millis: 20, done: 0 };
            graph.invoke(input).await.expect("it ends")
        });
    });
    group.finish();
}
