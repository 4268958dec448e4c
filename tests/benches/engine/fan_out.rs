//! Many tasks in one step: a fan-out to a hundred nodes with a join, and Sends by the thousand.

use criterion::{BenchmarkId, Criterion, Throughput};
use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Sum {
    #[reducer(sum)]
    total: u64,
    items: u64,
}

async fn work(state: &Sum) -> SumUpdate {
    Sum::update().total(state.items)
}

/// One node of the fan-out for each name.
macro_rules! hundred {
    ($($name:ident)*) => {
        graph! {
            FanOut<Sum> = Graph {
                nodes: [seed = nothing, gather = nothing, $($name = work),*],
                edges: [START >> seed >> [$($name),*] >> gather >> END],
            }
        }
    };
}

hundred! {
    n00 n01 n02 n03 n04 n05 n06 n07 n08 n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19 n20 n21 n22 n23 n24 n25 n26 n27 n28 n29
    n30 n31 n32 n33 n34 n35 n36 n37 n38 n39 n40 n41 n42 n43 n44 n45 n46 n47 n48 n49 n50 n51 n52 n53 n54 n55 n56 n57 n58 n59
    n60 n61 n62 n63 n64 n65 n66 n67 n68 n69 n70 n71 n72 n73 n74 n75 n76 n77 n78 n79 n80 n81 n82 n83 n84 n85 n86 n87 n88 n89
    n90 n91 n92 n93 n94 n95 n96 n97 n98 n99
}

async fn nothing() {}

async fn add(Sent(item): Sent<u64>) -> SumUpdate {
    Sum::update().total(item)
}

fn numbers(state: &Sum) -> std::ops::Range<u64> {
    0..state.items
}

graph! {
    Sends<Sum> = Graph {
        nodes: [add],
        edges: [START >> for number in numbers { add(number) }, add >> END],
    }
}

pub(crate) fn benches(c: &mut Criterion) {
    let runtime = crate::runtime();
    let mut group = c.benchmark_group("fan-out to 100 nodes and join, per node");
    group.throughput(Throughput::Elements(102));
    let graph = FanOut::compile();
    group.bench_function("hier", |b| {
        b.to_async(&runtime).iter(|| async { graph.invoke(Sum { total: 0, items: 1 }).await.expect("it ends") });
    });
    group.finish();

    let mut group = c.benchmark_group("Sends in one step, per task");
    let graph = Sends::compile();
    for items in [1_000, 10_000, 100_000] {
        group.throughput(Throughput::Elements(items));
        group.bench_function(BenchmarkId::from_parameter(items), |b| {
            b.to_async(&runtime).iter(|| async { graph.invoke(Sum { total: 0, items }).await.expect("it ends") });
        });
    }
    group.finish();
}
