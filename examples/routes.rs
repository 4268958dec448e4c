//! Routes and loops: `match`, `if`, the recursion limit, and a graceful end before it.
//!
//! The graph walks the Collatz sequence: halve an even number, triple an odd one and add one, until it is 1. The walk
//! starting at 27 takes a famous detour up to 9232.
//!
//! The route `next_move` is an ordinary function of the state that returns an enum, and the graph matches on it. If you
//! remove an arm, the compiler names the missing one. In the output, one of the last two walks reaches the recursion limit.
//! The other one checks `RemainingSteps` and ends with a result before.
//!
//! Run it: `cargo run --example routes`

use hier::prelude::*;
use hier::state::RemainingSteps;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Walk {
    number: u64,
    #[reducer(append)]
    path: Vec<u64>,
    #[reducer(max)]
    peak: u64,
    /// Halves directly after tripling, because the sum is always even.
    hurry: bool,
    /// Gives up before the recursion limit is reached.
    careful: bool,
    verdict: Option<String>,
    remaining_steps: RemainingSteps,
}

graph! {
    /// Walks the Collatz sequence down to 1.
    Collatz<Walk> = Graph {
        nodes: [look, halve, triple, arrive, give_up],
        edges: [
            START >> look >> match next_move {
                Next::Halve => halve,
                Next::Triple => triple,
                Next::Arrived => arrive,
                Next::OutOfSteps => give_up,
            },
            halve >> look,
            triple >> if (|walk: &Walk| walk.hurry) { halve } else { look },
            arrive >> END,
            give_up >> END,
        ],
    }
}

enum Next {
    Halve,
    Triple,
    Arrived,
    OutOfSteps,
}

fn next_move(walk: &Walk) -> Next {
    match walk.number {
        0 | 1 => Next::Arrived,
        // Giving up takes one step and the last look another.
        _ if walk.careful && walk.remaining_steps.get() <= 4 => Next::OutOfSteps,
        even if even.is_multiple_of(2) => Next::Halve,
        _ => Next::Triple,
    }
}

/// Records the current number.
async fn look(walk: &Walk) -> WalkUpdate {
    Walk::update().path([walk.number]).peak(walk.number)
}

async fn halve(walk: &Walk) -> WalkUpdate {
    Walk::update().number(walk.number / 2)
}

/// Fails if the number does not fit. A node can return any error.
async fn triple(walk: &Walk) -> hier::Result<WalkUpdate> {
    let next = walk.number.checked_mul(3).and_then(|number| number.checked_add(1));
    let next = next.ok_or_else(|| NodeError::permanent(format!("3 × {} + 1 does not fit 64 bits", walk.number)))?;
    Ok(Walk::update().number(next))
}

async fn arrive(walk: &Walk) -> WalkUpdate {
    Walk::update().verdict(format!("arrived after {} looks, peak {}", walk.path.len(), walk.peak))
}

async fn give_up(walk: &Walk) -> WalkUpdate {
    Walk::update().verdict(format!("gave up at {} with {} steps left", walk.number, walk.remaining_steps.get()))
}

#[tokio::main]
async fn main() {
    let collatz = Collatz::compile();
    let walks = [
        ("from 6", Walk::update().number(6), 100),
        ("from 27", Walk::update().number(27), 1_000),
        ("from 27, in a hurry", Walk::update().number(27).hurry(true), 1_000),
        ("from 27 with a limit of 60 steps", Walk::update().number(27), 60),
        ("from 27 with that limit, carefully", Walk::update().number(27).careful(true), 60),
        ("from 6148914691236517205", Walk::update().number(6_148_914_691_236_517_205), 100),
    ];
    for (title, input, limit) in walks {
        println!("{title}");
        match collatz.invoke(input).recursion_limit(limit).await {
            Ok(out) => {
                let walk = out.state();
                println!("  {}", path(&walk.path));
                println!("  {}\n", walk.verdict.as_deref().unwrap_or("no verdict"));
            }
            Err(error) => println!("  error: {error}\n"),
        }
    }
}

/// The beginning and the end of a path.
fn path(numbers: &[u64]) -> String {
    let text = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" → ");
    match numbers {
        [start @ .., a, b, c] if start.len() > 9 => format!("{} → … → {}", text(&start[..8]), text(&[*a, *b, *c])),
        all => text(all),
    }
}
