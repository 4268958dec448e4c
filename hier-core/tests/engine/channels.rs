//! Channels between steps: conflicts, overwrites, what expires, what collects.

use hier_core::Event;
use hier_core::graph::{FullState, Graph, GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::state::{DynState, Overwrite, Schema};
use serde_json::json;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Desk {
    #[reducer(append)]
    log: Vec<String>,
    plain: Option<i64>,
    #[channel(ephemeral)]
    hint: Option<String>,
    #[channel(topic)]
    news: Vec<u32>,
    #[channel(topic(accumulate))]
    history: Vec<u32>,
    #[channel(untracked)]
    #[serde(skip)]
    handle: Option<u8>,
}

#[allow(clippy::needless_pass_by_value)] // shorter where it is called
fn says(text: impl ToString) -> DeskUpdate {
    Desk::update().log([text.to_string()])
}

async fn run<G: Graph<State = Desk, Context = (), Input = FullState, Output = Desk>>() -> Result<Desk, RunError> {
    Ok(G::compile().invoke(Desk::update()).await?.into_state())
}

mod conflicts {
    use super::*;

    async fn a() -> DeskUpdate {
        says("a").plain(1)
    }

    async fn b() -> DeskUpdate {
        says("b").plain(1)
    }

    async fn c() -> DeskUpdate {
        says("c")
    }

    graph! { pub(super) TwoWriters<Desk> = Graph { nodes: [a, b, c], edges: [START >> [a, b, c] >> END] } }
    graph! { OneWriter<Desk> = Graph { nodes: [a, c], edges: [START >> [a, c] >> END] } }
    graph! { OneAfterTheOther<Desk> = Graph { nodes: [a, b], edges: [START >> a >> b >> END] } }

    #[tokio::test]
    async fn two_writers_of_a_plain_channel_conflict_even_with_equal_values() {
        let error = run::<TwoWriters>().await.unwrap_err();
        let RunError::Conflict { graph, channel, nodes, .. } = &error else { panic!("{error:?}") };
        assert_eq!((graph.as_str(), channel.as_str()), ("two_writers", "plain"));
        assert_eq!(nodes, &["a", "b"]);
        assert!(error.to_string().contains("reducer"), "the message has the fix: {error}");
        assert_eq!(run::<OneWriter>().await.unwrap().plain, Some(1));
        assert_eq!(run::<OneAfterTheOther>().await.unwrap().plain, Some(1));
    }

    async fn each(Sent(n): Sent<i64>) -> DeskUpdate {
        Desk::update().plain(n)
    }

    fn two(_: &Desk) -> [i64; 2] {
        [1, 2]
    }

    fn one(_: &Desk) -> [i64; 1] {
        [1]
    }

    graph! { TwoSends<Desk> = Graph { nodes: [each], edges: [START >> for n in two { each(n) }, each >> END] } }
    graph! { OneSend<Desk> = Graph { nodes: [each], edges: [START >> for n in one { each(n) }, each >> END] } }

    #[tokio::test]
    async fn two_tasks_of_one_node_conflict_too() {
        let error = run::<TwoSends>().await.unwrap_err();
        assert!(matches!(&error, RunError::Conflict { nodes, .. } if nodes == &["each", "each"]), "{error:?}");
        assert_eq!(run::<OneSend>().await.unwrap().plain, Some(1));
    }

    async fn hints() -> DeskUpdate {
        Desk::update().hint("look".to_owned())
    }

    async fn handles() -> DeskUpdate {
        Desk::update().handle(1)
    }

    graph! { TwoHints<Desk> = Graph { nodes: [hints, also = hints], edges: [START >> [hints, also] >> END] } }
    graph! { TwoHandles<Desk> = Graph { nodes: [handles, also = handles], edges: [START >> [handles, also] >> END] } }

    #[tokio::test]
    async fn ephemeral_and_untracked_channels_have_one_writer_a_step() {
        assert!(matches!(run::<TwoHints>().await, Err(RunError::Conflict { channel, .. }) if channel == "hint"));
        assert!(matches!(run::<TwoHandles>().await, Err(RunError::Conflict { channel, .. }) if channel == "handle"));
    }
}

mod overwrites {
    use super::*;

    async fn before() -> DeskUpdate {
        says("before")
    }

    async fn first() -> DeskUpdate {
        says("first")
    }

    async fn over() -> DeskUpdate {
        Desk::update().log(Overwrite(vec!["over".to_owned()]))
    }

    async fn z_last() -> DeskUpdate {
        says("last")
    }

    graph! { One<Desk> = Graph {
        nodes: [before, first, over, z_last],
        edges: [START >> before >> [first, over, z_last] >> END],
    } }
    graph! { Two<Desk> = Graph {
        nodes: [before, over, zover = over],
        edges: [START >> before >> [over, zover] >> END],
    } }

    #[tokio::test]
    async fn overwrite_voids_other_writes_of_the_step() {
        assert_eq!(run::<One>().await.unwrap().log, ["over"]);
    }

    #[tokio::test]
    async fn two_overwrites_conflict() {
        let error = run::<Two>().await.unwrap_err();
        assert!(
            matches!(&error, RunError::Conflict { channel, nodes, .. } if channel == "log" && nodes == &["over", "zover"])
        );
    }

    #[tokio::test]
    async fn setter_called_twice_merges_reduced_channels() {
        let update = says("one").plain(1).log(["two".to_owned()]).plain(2);
        let writes = serde_json::to_string(&update.writes().to_json().unwrap()).unwrap();
        assert_eq!(writes, r#"[{"log":["one"]},{"plain":2},{"log":["two"]}]"#);
    }
}

mod expiry {
    use super::*;

    fn sees(state: &Desk) -> String {
        format!("{:?} {:?} {:?} {:?}", state.hint.as_deref(), state.news, state.history, state.handle)
    }

    async fn one(state: &Desk) -> DeskUpdate {
        says(sees(state)).hint("look".to_owned()).news([1]).history([1]).handle(7)
    }

    async fn two(state: &Desk) -> DeskUpdate {
        says(sees(state)).history([2])
    }

    async fn three(state: &Desk) -> DeskUpdate {
        says(sees(state)).news([3])
    }

    graph! { Line<Desk> = Graph { nodes: [one, two, three], edges: [START >> one >> two >> three >> END] } }

    #[tokio::test]
    async fn ephemerals_and_topics_last_one_step() {
        let state = run::<Line>().await.unwrap();
        let expected = [r"None [] [] None", r#"Some("look") [1] [1] Some(7)"#, r"None [] [1, 2] Some(7)"];
        assert_eq!(state.log, expected);
        assert_eq!((state.hint, state.news, state.history, state.handle), (None, vec![3], vec![1, 2], Some(7)));
    }

    #[tokio::test]
    async fn ephemeral_input_is_seen_by_the_first_step() {
        let input = Desk::update().hint("from outside".to_owned()).news([9]);
        let out = Line::compile().invoke(input).await.unwrap();
        assert_eq!(out.state().log[0], r#"Some("from outside") [9] [] None"#);
        assert_eq!(out.state().log[2], r"None [] [1, 2] Some(7)");
    }

    // A route sees the state from the start of the step and the writes of its own node, with or without siblings.
    fn hint_and_news(state: &Desk) -> [String; 1] {
        [format!("{:?} {:?}", state.hint.as_deref(), state.news)]
    }

    async fn quiet() -> DeskUpdate {
        Desk::update().news([2])
    }

    async fn sibling() {}

    async fn tell(Sent(text): Sent<String>) -> DeskUpdate {
        says(text)
    }

    async fn start() -> DeskUpdate {
        Desk::update().hint("look".to_owned()).news([1])
    }

    graph! { RouteAlone<Desk> = Graph {
        nodes: [start, quiet, tell],
        edges: [START >> start >> quiet >> for text in hint_and_news { tell(text) }, tell >> END],
    } }
    graph! { RouteBeside<Desk> = Graph {
        nodes: [start, quiet, sibling, tell],
        edges: [START >> start >> [quiet, sibling], quiet >> for text in hint_and_news { tell(text) }, [sibling, tell] >> END],
    } }

    #[tokio::test]
    async fn route_sees_the_same_with_a_sibling_as_without() {
        let alone = run::<RouteAlone>().await.unwrap().log;
        assert_eq!(alone, run::<RouteBeside>().await.unwrap().log);
        assert_eq!(alone, [r#"Some("look") [1, 2]"#]);
    }
}

#[tokio::test]
async fn untracked_channels_are_not_in_json() {
    async fn all() -> DeskUpdate {
        Desk::update().handle(7).plain(1)
    }
    graph! { Handles<Desk> = Graph { nodes: [all], edges: [START >> all >> END] } }
    let mut events = Handles::compile().stream(Desk::update()).modes([StreamMode::Values, StreamMode::Tasks]);
    while let Some(event) = events.next().await {
        let data = event.unwrap().data().unwrap();
        let handles = [&data, &data["input"], &data["result"]].map(|part| part.get("handle"));
        assert_eq!(handles, [None, None, None], "{data}");
    }
}

#[tokio::test]
async fn channel_without_a_value_differs_from_one_that_is_null() {
    use hier_core::state::Builtin;
    let schema = Schema::new().last("a").last("b").reduced("log", Builtin::Append);
    let mut graph: GraphBuilder<DynState> = GraphBuilder::dynamic("nulls", schema);
    graph = graph.node("n", async |task: Task<DynState>| task.state().update(json!({ "a": null })));
    graph = graph.edge(START, "n").edge("n", END);
    let graph = graph.compile().unwrap();
    let out = graph.invoke(graph.update(json!({})).unwrap()).await.unwrap();
    assert_eq!(out.state().to_value(), json!({ "a": null, "log": [] }));
    let unknown = graph.update(json!({ "lag": [] })).unwrap_err().to_string();
    assert!(unknown.contains("`lag`") && unknown.contains("`log`"), "{unknown}");
}

/// Two items whose ids are null have none, so neither is the other.
#[tokio::test]
async fn null_id_counts_as_missing() {
    use hier_core::state::Builtin;
    let schema = Schema::new().reduced("items", Builtin::ById);
    let mut graph: GraphBuilder<DynState> = GraphBuilder::dynamic("ids", schema);
    graph = graph.node("n", async |task: Task<DynState>| task.state().update(json!({ "items": [{ "id": 1 }] })));
    graph = graph.edge(START, "n").edge("n", END);
    let graph = graph.compile().unwrap();
    let run = async |items| graph.invoke(graph.update(json!({ "items": items })).unwrap()).await;
    let out = run(json!([{ "id": 1, "old": true }, { "id": 2 }])).await.unwrap();
    assert_eq!(out.state().to_value(), json!({ "items": [{ "id": 1 }, { "id": 2 }] }));
    let refused = run(json!([{ "id": null }, { "id": null }])).await.unwrap_err().to_string();
    assert!(refused.contains("`by_id` needs items with an `id`"), "{refused}");
}

#[tokio::test]
async fn conflict_leaves_nothing_and_the_graph_can_run_again() {
    let compiled = conflicts::TwoWriters::compile();
    for _ in 0..3 {
        assert!(compiled.invoke(Desk::update()).await.is_err());
    }
    let given = Desk { plain: Some(3), ..Desk::default() };
    let mut events = compiled.stream(given.clone()).modes([StreamMode::Values]);
    let Some(Ok(Event::Values(state))) = events.next().await else { panic!("the input is a separate step") };
    assert_eq!(*state, given);
    assert!(matches!(events.next().await, Some(Err(RunError::Conflict { .. }))), "no values of the step that failed");
    assert!(events.next().await.is_none());
    let taken = events.outcome().await.unwrap_err();
    assert!(matches!(taken, RunError::OutcomeTaken), "{taken}");
}
