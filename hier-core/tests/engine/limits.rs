//! The recursion limit and the remaining steps, to the exact number: a run of K supersteps needs a limit of K + 1.

use hier_core::graph::{EdgeEnd, GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::state::{IsLastStep, RemainingSteps};
use hier_core::{DEFAULT_RECURSION_LIMIT, Event};
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    #[reducer(append)]
    seen: Vec<(String, usize, bool)>,
    n: usize,
    goal: usize,
    remaining_steps: RemainingSteps,
    is_last_step: IsLastStep,
}

async fn step(state: &Count, run: &Run) -> CountUpdate {
    assert_eq!(run.remaining_steps(), state.remaining_steps.get());
    assert_eq!(run.is_last_step(), state.is_last_step.get());
    assert_eq!(usize::try_from(run.superstep()).unwrap(), state.n + 1, "the first step on a fresh thread is 1");
    let seen = (run.node().to_owned(), state.remaining_steps.get(), state.is_last_step.get());
    Count::update().seen([seen]).n(state.n + 1)
}

fn more(state: &Count) -> bool {
    state.n < state.goal
}

graph! { Steps<Count> = Graph {
    nodes: [step],
    edges: [START >> step >> if more { step } else { END }],
} }

async fn run(goal: usize, limit: usize) -> Result<Count, RunError> {
    let config = Config::new().recursion_limit(limit);
    Ok(Steps::compile().invoke(Count::update().goal(goal)).config(config).await?.into_state())
}

#[tokio::test]
async fn k_supersteps_need_a_limit_of_k_plus_one() {
    for goal in 1..8 {
        for limit in 1..10 {
            let ended = run(goal, limit).await;
            assert_eq!(ended.is_ok(), goal < limit, "{goal} steps, limit {limit}");
            let Err(error) = ended else { continue };
            let RunError::RecursionLimit { graph, limit: received, next } = error else { panic!("{error}") };
            assert_eq!((graph.as_str(), received), ("steps", limit));
            let expected: &[&str] = if goal == limit { &[] } else { &["step"] };
            assert_eq!(next, expected, "{goal} steps, limit {limit}");
        }
    }
}

#[tokio::test]
async fn ith_step_sees_the_limit_less_i() {
    let state = run(3, 4).await.unwrap();
    let seen: Vec<_> = state.seen.iter().map(|(_, left, last)| (*left, *last)).collect();
    assert_eq!(seen, [(3, false), (2, false), (1, true)]);
}

#[tokio::test]
async fn run_that_fails_has_taken_as_many_steps_as_its_limit() {
    let config = Config::new().recursion_limit(3);
    let mut events = Steps::compile().stream(Count::update().goal(99)).config(config).modes([StreamMode::Updates]);
    let mut seen = Vec::new();
    let error = loop {
        match events.next().await {
            Some(Ok(Event::Updates(update))) => seen.push(update.update),
            Some(Err(error)) => break error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(seen.len(), 3);
    let last = seen[2].writes().to_json().unwrap();
    assert_eq!(last["seen"][0], json!(["step", 0, false]), "a further step than can complete sees 0 left");
    assert!(error.to_string().contains("recursion limit of 3") && error.to_string().contains("`step`"), "{error}");
}

#[tokio::test]
async fn zero_limit_is_refused_and_the_default_is_langgraphs() {
    assert!(matches!(run(1, 0).await, Err(RunError::Config(text)) if text.contains("`recursion_limit`")));
    assert_eq!(DEFAULT_RECURSION_LIMIT, 10_007);
    let state = Steps::compile().invoke(Count::update().goal(10_006)).await.unwrap().into_state();
    assert_eq!(state.n, 10_006);
    let ended = Steps::compile().invoke(Count::update().goal(10_007)).await;
    assert!(matches!(ended, Err(RunError::RecursionLimit { limit: 10_007, .. })));
}

#[tokio::test]
async fn run_without_nodes_needs_a_limit_too() {
    // Applying the input is the one superstep that a limit of 1 allows.
    let mut graph: GraphBuilder<Count> = GraphBuilder::new("empty");
    graph = graph.lenient().edge(START, END);
    let graph = graph.compile().unwrap();
    let out = graph.invoke(Count::update().n(4)).recursion_limit(1).await.unwrap();
    assert_eq!(out.state().n, 4);
}

async fn leaf(Sent(n): Sent<usize>, state: &Count) -> CountUpdate {
    Count::update().seen([(format!("leaf {n}"), state.remaining_steps.get(), state.is_last_step.get())])
}

fn leaves(_: &Count) -> std::ops::Range<usize> {
    0..3
}

async fn first(state: &Count) -> CountUpdate {
    Count::update().seen([("first".to_owned(), state.remaining_steps.get(), state.is_last_step.get())])
}

graph! { Fan<Count> = Graph {
    nodes: [first, leaf],
    edges: [START >> first >> for n in leaves { leaf(n) }, leaf >> END],
} }

#[tokio::test]
async fn any_number_of_tasks_is_one_step() {
    let compiled = Fan::compile();
    let out = compiled.invoke(Count::update()).recursion_limit(3).await.unwrap();
    let left: Vec<usize> = out.state().seen.iter().map(|(_, left, _)| *left).collect();
    assert_eq!(left, [2, 1, 1, 1]);
    let ended = compiled.invoke(Count::update()).recursion_limit(2).await;
    assert!(matches!(ended, Err(RunError::RecursionLimit { .. })));
}

mod subgraphs {
    use super::*;

    async fn inner(state: &Count) -> CountUpdate {
        Count::update()
            .seen([("inner".to_owned(), state.remaining_steps.get(), state.is_last_step.get())])
            .n(state.n + 1)
    }

    async fn outer(state: &Count) -> CountUpdate {
        Count::update().seen([("outer".to_owned(), state.remaining_steps.get(), state.is_last_step.get())])
    }

    graph! { Inner<Count> = Graph {
        nodes: [inner],
        edges: [START >> inner >> if more { inner } else { END }],
    } }

    graph! { Outer<Count> = Graph {
        nodes: [outer, Inner, last = outer],
        edges: [START >> outer >> Inner >> last >> END],
    } }

    #[tokio::test]
    async fn subgraph_counts_its_own_steps_against_the_same_limit() {
        let config = Config::new().recursion_limit(10);
        let out = Outer::compile().invoke(Count::update().goal(4)).config(config).await.unwrap();
        let seen: Vec<_> = out.state().seen.iter().map(|(node, left, _)| (node.as_str(), *left)).collect();
        let inner = [("inner", 9), ("inner", 8), ("inner", 7), ("inner", 6)];
        let expected: Vec<_> = [("outer", 9)].into_iter().chain(inner).chain([("outer", 7)]).collect();
        assert_eq!(seen, expected, "the whole subgraph is one step of its parent");
    }

    #[tokio::test]
    async fn limit_reached_inside_names_both_graphs() {
        let config = Config::new().recursion_limit(5);
        let error = Outer::compile().invoke(Count::update().goal(5)).config(config).await.unwrap_err();
        assert!(
            matches!(error.root(), RunError::RecursionLimit { graph, limit: 5, .. } if graph == "inner"),
            "{error:?}"
        );
        let RunError::Node { graph, node, error } = &error else { panic!("{error:?}") };
        assert_eq!((graph.as_str(), node.as_str(), error.is_transient()), ("outer", "Inner", false));
    }
}

#[tokio::test]
async fn long_run_needs_no_stack() {
    let mut graph: GraphBuilder<Count> = GraphBuilder::new("long");
    graph = graph.node("a", async |task: Task<Count>| Count::update().n(task.state().n + 1)).edge(START, "a").route(
        "a",
        "more",
        [("more", vec![EdgeEnd::from("a")]), ("end", vec![EdgeEnd::End])],
        |state| if state.n < 50_000 { "more" } else { "end" },
    );
    let config = Config::new().recursion_limit(usize::MAX);
    let out = graph.compile().unwrap().invoke(Count::update()).config(config).await.unwrap();
    assert_eq!(out.state().n, 50_000);
}
