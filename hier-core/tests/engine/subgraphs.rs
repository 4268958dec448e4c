//! Graphs as nodes of graphs: their inputs and their returned writes.

use hier_core::graph::{FullState, Graph, GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, Overwrite, Schema};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Trace {
    #[reducer(append)]
    log: Vec<String>,
    #[reducer(sum)]
    total: i64,
    x: i64,
    y: i64,
    #[channel(ephemeral)]
    hint: Option<String>,
    #[channel(topic)]
    news: Vec<u32>,
}

#[allow(clippy::needless_pass_by_value)] // shorter where it is called
fn says(text: impl ToString) -> TraceUpdate {
    Trace::update().log([text.to_string()])
}

async fn node(run: &Run) -> TraceUpdate {
    says(run.node())
}

async fn run<G: Graph<State = Trace, Context = (), Input = FullState, Output = Trace>>(
    input: TraceUpdate,
) -> Result<Trace, RunError> {
    Ok(G::compile().invoke(input).await?.into_state())
}

mod deltas {
    use super::*;

    async fn adds(state: &Trace) -> TraceUpdate {
        says(format!("sees {:?}", state.log)).total(2)
    }

    graph! { Sub<Trace> = Graph { nodes: [adds, s2 = node], edges: [START >> adds >> s2 >> END] } }
    graph! { Outer<Trace> = Graph { nodes: [p1 = node, Sub, p2 = node], edges: [START >> p1 >> Sub >> p2 >> END] } }

    #[tokio::test]
    async fn subgraph_returns_its_writes_and_not_its_input() {
        let state = run::<Outer>(Trace::update().total(40).x(3)).await.unwrap();
        assert_eq!(state.log, ["p1", r#"sees ["p1"]"#, "s2", "p2"]);
        assert_eq!((state.total, state.x), (42, 3));
    }

    async fn sets_x(state: &Trace) -> TraceUpdate {
        Trace::update().x(state.x + 1)
    }

    async fn sets_y() -> TraceUpdate {
        Trace::update().y(7)
    }

    async fn reads() {}

    graph! { SetsX<Trace> = Graph { nodes: [sets_x, again = sets_x], edges: [START >> sets_x >> again >> END] } }
    graph! { Reads<Trace> = Graph { nodes: [reads], edges: [START >> reads >> END] } }
    graph! { Siblings<Trace> = Graph {
        nodes: [SetsX, Reads, sets_y],
        edges: [START >> [SetsX, Reads, sets_y] >> END],
    } }
    graph! { Colliding<Trace> = Graph { nodes: [SetsX, sets_x], edges: [START >> [SetsX, sets_x] >> END] } }

    #[tokio::test]
    async fn subgraph_conflicts_only_where_it_wrote() {
        let state = run::<Siblings>(Trace::update().x(1).y(1)).await.unwrap();
        assert_eq!((state.x, state.y), (3, 7), "the last value of a plain channel, which was written twice");
        let error = run::<Colliding>(Trace::update()).await.unwrap_err();
        assert!(
            matches!(&error, RunError::Conflict { channel, nodes, .. } if channel == "x" && nodes == &["SetsX", "sets_x"]),
            "{error:?}"
        );
    }

    async fn over(state: &Trace) -> TraceUpdate {
        Trace::update().log(Overwrite(vec![format!("over {}", state.log.len())]))
    }

    graph! { Overwrites<Trace> = Graph {
        nodes: [s1 = node, over, s2 = node],
        edges: [START >> s1 >> over >> s2 >> END],
    } }
    graph! { Around<Trace> = Graph {
        nodes: [p1 = node, Overwrites, p2 = node],
        edges: [START >> p1 >> Overwrites >> p2 >> END],
    } }
    graph! { Beside<Trace> = Graph {
        nodes: [p1 = node, Overwrites, a = node],
        edges: [START >> p1 >> [Overwrites, a] >> END],
    } }

    #[tokio::test]
    async fn overwrite_inside_is_one_outside() {
        assert_eq!(run::<Around>(Trace::update()).await.unwrap().log, ["over 2", "s2", "p2"]);
        assert_eq!(run::<Beside>(Trace::update()).await.unwrap().log, ["over 2", "s2"], "a sibling's write is void");
    }

    graph! { Twice<Trace> = Graph { nodes: [Sub, also = Sub], edges: [START >> [Sub, also] >> END] } }

    #[tokio::test]
    async fn one_graph_may_be_two_nodes() {
        let state = run::<Twice>(Trace::update()).await.unwrap();
        assert_eq!(state.log, ["sees []", "s2", "sees []", "s2"]);
        assert_eq!(state.total, 4);
    }
}

mod expiry {
    use super::*;

    async fn gives() -> TraceUpdate {
        Trace::update().hint("look".to_owned()).news([1, 2])
    }

    async fn looks(state: &Trace) -> TraceUpdate {
        says(format!("{:?} {:?}", state.hint.as_deref(), state.news))
    }

    async fn hints_last() -> TraceUpdate {
        Trace::update().hint("from inside".to_owned()).news([3])
    }

    graph! { Looks<Trace> = Graph {
        nodes: [looks, then = looks],
        edges: [START >> looks >> then >> END],
    } }
    graph! { Around<Trace> = Graph {
        nodes: [gives, Looks, after = looks],
        edges: [START >> gives >> Looks >> after >> END],
    } }

    #[tokio::test]
    async fn ephemeral_value_is_visible_in_the_first_inner_step() {
        let log = run::<Around>(Trace::update()).await.unwrap().log;
        assert_eq!(log, [r#"Some("look") [1, 2]"#, "None []", "None []"]);
    }

    graph! { Hints<Trace> = Graph { nodes: [gives, hints_last], edges: [START >> gives >> hints_last >> END] } }
    graph! { Forgets<Trace> = Graph { nodes: [gives, s = node], edges: [START >> gives >> s >> END] } }
    graph! { AroundHints<Trace> = Graph { nodes: [Hints, looks], edges: [START >> Hints >> looks >> END] } }
    graph! { AroundForgets<Trace> = Graph { nodes: [Forgets, looks], edges: [START >> Forgets >> looks >> END] } }

    #[tokio::test]
    async fn expired_inner_values_are_not_returned() {
        assert_eq!(run::<AroundHints>(Trace::update()).await.unwrap().log, [r#"Some("from inside") [3]"#]);
        assert_eq!(run::<AroundForgets>(Trace::update()).await.unwrap().log, ["s", "None []"]);
    }
}

mod other_state {
    use super::*;

    #[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Inner {
        // Shares `log`, `total` and `x` with the parent, and the last two with other rules.
        #[reducer(append)]
        log: Vec<String>,
        total: i64,
        #[reducer(sum)]
        x: i64,
        private: Option<String>,
        #[channel(untracked)]
        #[serde(skip)]
        handle: Option<u8>,
    }

    async fn first(state: &Inner) -> InnerUpdate {
        assert_eq!((state.private.as_deref(), state.handle), (None, None), "each run starts afresh");
        let text = format!("{:?} {} {}", state.log, state.total, state.x);
        Inner::update().log([text]).total(state.total + 1).x(10).private("secret".to_owned()).handle(1)
    }

    async fn second(state: &Inner) -> InnerUpdate {
        Inner::update().log([state.private.clone().unwrap_or_default()]).total(state.total + 1).x(10)
    }

    graph! { Private<Inner> = Graph { nodes: [first, second], edges: [START >> first >> second >> END] } }
    graph! { Around<Trace> = Graph {
        nodes: [p = node, Private, also = Private],
        edges: [START >> p >> Private >> also >> END],
    } }

    #[tokio::test]
    async fn channels_are_shared_by_name_and_the_others_stay_private() {
        let state = run::<Around>(Trace::update().total(5).x(3).y(4)).await.unwrap();
        assert_eq!(state.log[..3], ["p".to_owned(), r#"["p"] 5 3"#.to_owned(), "secret".to_owned()]);
        // `total` is plain inside: its last value, 7, is added outside, and again from there: 5 + 7 + 14.
        // `x` is summed inside and plain outside: its last value, 3 + 10 + 10, is the value outside, and again 20 more.
        assert_eq!((state.total, state.x, state.y), (26, 43, 4));
    }
}

mod nested {
    use super::*;

    async fn deep(run: &Run, state: &Trace) -> TraceUpdate {
        let levels: Vec<&str> = run.namespace().iter().filter_map(|level| level.split(':').next()).collect();
        says(format!("{} in {} of {levels:?}", run.node(), run.graph())).x(state.x + 1)
    }

    graph! { Three<Trace> = Graph { nodes: [deep, more = deep], edges: [START >> deep >> more >> END] } }
    graph! { Two<Trace> = Graph { nodes: [deep, Three], edges: [START >> deep >> Three >> END] } }
    graph! { One<Trace> = Graph { nodes: [deep, Two], edges: [START >> deep >> Two >> END] } }
    graph! { Zero<Trace> = Graph { nodes: [deep, One, last = deep], edges: [START >> deep >> One >> last >> END] } }

    #[tokio::test]
    async fn deltas_pass_through_every_level_once() {
        let state = run::<Zero>(Trace::update()).await.unwrap();
        let expected = [
            "deep in zero of []",
            r#"deep in one of ["One"]"#,
            r#"deep in two of ["One", "Two"]"#,
            r#"deep in three of ["One", "Two", "Three"]"#,
            r#"more in three of ["One", "Two", "Three"]"#,
            "last in zero of []",
        ];
        assert_eq!(state.log, expected);
        assert_eq!(state.x, 6);
    }
}

mod sends {
    use super::*;

    async fn inside(state: &Trace) -> TraceUpdate {
        says(format!("{} {}", state.x, state.log.len())).total(state.x)
    }

    fn states(_: &Trace) -> [Trace; 3] {
        [3, 1, 2].map(|x| Trace { x, ..Trace::default() })
    }

    graph! { Worker<Trace> = Graph { nodes: [inside], edges: [START >> inside >> END] } }
    graph! { Sends<Trace> = Graph {
        nodes: [Worker],
        edges: [START >> for state in states { Worker(state) }, Worker >> END],
    } }

    #[tokio::test]
    async fn subgraph_can_be_sent_its_state() {
        let state = run::<Sends>(says("not seen inside")).await.unwrap();
        assert_eq!(state.log, ["not seen inside", "3 0", "1 0", "2 0"]);
        assert_eq!((state.total, state.x), (6, 0));
    }
}

mod context {
    use super::*;

    struct Desk {
        name: &'static str,
    }

    async fn asks(run: &Run<Desk>) -> TraceUpdate {
        says(run.context().name)
    }

    async fn needs_none(run: &Run) -> TraceUpdate {
        let () = run.context();
        says(run.config().thread_id().unwrap_or("no thread"))
    }

    graph! { Same<Trace, Desk> = Graph { nodes: [asks], edges: [START >> asks >> END] } }
    graph! { Without<Trace> = Graph { nodes: [needs_none], edges: [START >> needs_none >> END] } }
    graph! { Around<Trace, Desk> = Graph { nodes: [Same, Without], edges: [START >> Same >> Without >> END] } }

    #[tokio::test]
    async fn subgraph_inherits_context_and_config() {
        let desk = Desk { name: "the desk" };
        let out = Around::compile().invoke(Trace::update()).thread("t1").context(desk).await.unwrap();
        assert_eq!(out.state().log, ["the desk", "t1"]);
    }
}

mod views {
    use super::*;

    #[derive(View, Debug, PartialEq)]
    #[view(of = Trace)]
    struct Numbers {
        x: i64,
        total: i64,
    }

    graph! { Viewed<Trace> = Graph {
        nodes: [p = node],
        edges: [START >> p >> END],
        input: Numbers,
        output: Numbers,
    } }
    graph! { Around<Trace> = Graph { nodes: [Viewed], edges: [START >> Viewed >> END] } }

    #[tokio::test]
    async fn input_and_output_views_bound_the_subgraph() {
        let out = Viewed::compile().invoke(Numbers { x: 1, total: 2 }).await.unwrap();
        assert_eq!(out.into_state(), Numbers { x: 1, total: 2 });
        // As a node, the graph returns its writes.
        assert_eq!(run::<Around>(says("given")).await.unwrap().log, ["given", "p"]);
    }
}

#[tokio::test]
async fn builder_attaches_subgraphs() {
    let mut inner: GraphBuilder<Trace> = GraphBuilder::new("inner");
    inner = inner.node("s", async |task: Task<Trace>| task.call(node).await).edge(START, "s").edge("s", END);
    let inner = inner.compile().unwrap();
    let mut outer: GraphBuilder<Trace> = GraphBuilder::new("outer");
    outer = outer
        .node("p", async |task: Task<Trace>| task.call(node).await)
        .subgraph("sub", &inner)
        .subgraph("also", &inner);
    outer = outer.edge(START, "p").edge("p", "sub").edge("p", "also").edge("sub", END).edge("also", END);
    let out = outer.compile().unwrap().invoke(Trace::update()).await.unwrap();
    assert_eq!(out.state().log, ["p", "s", "s"]);
}

/// Only the subgraph merges `found`, so its write for the outer graph is the whole value.
#[tokio::test]
async fn events_show_the_whole_value_of_a_channel_without_a_reducer() {
    let mut inner = GraphBuilder::dynamic("inner", Schema::new().reduced("found", Builtin::Append));
    for node in ["a", "b"] {
        let find = |task: Task<DynState>| async move { task.state().update(json!({ "found": [task.run().node()] })) };
        inner = inner.node(node, find);
    }
    let inner = inner.edge(START, "a").edge("a", "b").edge("b", END).compile().unwrap();
    let mut outer: GraphBuilder<DynState> = GraphBuilder::dynamic("outer", Schema::new().last("found"));
    outer = outer.subgraph("sub", &inner).edge(START, "sub").edge("sub", END);
    let outer = outer.compile().unwrap();
    let modes = [StreamMode::Updates, StreamMode::Tasks];
    let mut stream = outer.stream(outer.update(json!({ "found": ["old"] })).unwrap()).modes(modes);
    let mut shown = Vec::new();
    while let Some(event) = stream.next().await {
        shown.push(event.unwrap().to_json().unwrap()["data"].clone());
    }
    let found = json!({ "found": ["old", "a", "b"] });
    assert_eq!((&shown[1], &shown[2]["result"]), (&json!({ "sub": found }), &found));
    assert_eq!(stream.outcome().await.unwrap().state().to_value(), found);
}

/// The channels of both schemas look the same, because custom reducers have no names.
#[tokio::test]
async fn dynamic_subgraph_merges_with_its_own_reducer() {
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let greatest = move |old: &mut Value, new: Value| {
        *old = json!(number(old).max(number(&new)));
        Ok(())
    };
    let sum = move |old: &mut Value, new: Value| {
        *old = json!(number(old) + number(&new));
        Ok(())
    };
    let write = |task: Task<DynState>| async move { task.state().update(json!({ "n": 5 })) };
    let look = |task: Task<DynState>| async move { task.state().update(json!({ "seen": task.state().get("n") })) };
    let mut inner = GraphBuilder::dynamic("inner", Schema::new().reduced_with("n", json!(0), greatest).last("seen"));
    inner = inner.node("write", write).node("look", look).edge(START, "write").edge("write", "look").edge("look", END);
    let inner = inner.compile().unwrap();
    let mut outer: GraphBuilder<DynState> =
        GraphBuilder::dynamic("outer", Schema::new().reduced_with("n", json!(0), sum).last("seen"));
    outer = outer.subgraph("sub", &inner).edge(START, "sub").edge("sub", END);
    let outer = outer.compile().unwrap();
    let out = outer.invoke(outer.update(json!({ "n": 3 })).unwrap()).await.unwrap();
    assert_eq!(out.state().to_value(), json!({ "n": 8, "seen": 5 }));
}
