//! Commands: targets in addition to the edges of a node, and refused ones.

use hier_core::NodeErrorKind;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{FullState, Graph, GraphBuilder, Task};
use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trace {
    #[reducer(append)]
    log: Vec<String>,
    x: i64,
}

#[allow(clippy::needless_pass_by_value)] // shorter where it is called
fn says(text: impl ToString) -> TraceUpdate {
    Trace::update().log([text.to_string()])
}

async fn node(run: &Run) -> TraceUpdate {
    says(run.node())
}

async fn item(Sent(n): Sent<u32>) -> TraceUpdate {
    says(format!("item{n}"))
}

async fn log<G: Graph<State = Trace, Context = (), Input = FullState, Output = Trace>>() -> String {
    let out = G::compile().invoke(Trace::update()).await;
    out.expect("the graph runs").into_state().log.join(" ")
}

/// Returns the node and the text of a graph's error.
async fn failure<G: Graph<State = Trace, Context = (), Input = FullState, Output = Trace>>() -> (String, NodeError) {
    match G::compile().invoke(Trace::update()).await {
        Err(RunError::Node { node, error, .. }) => (node, error),
        other => panic!("{other:?}"),
    }
}

mod goto {
    use super::*;

    async fn jumps() -> Command<Trace> {
        Command::update(says("jumps")).goto(Beside::c)
    }

    graph! { Beside<Trace> = Graph {
        nodes: [jumps { goto: [c] }, b = node, c = node],
        edges: [START >> jumps >> b >> END, c >> END],
    } }

    #[tokio::test]
    async fn goto_adds_to_the_nodes_own_edges() {
        assert_eq!(log::<Beside>().await, "jumps b c");
    }

    async fn everywhere() -> Command<Trace> {
        Command::new()
            .goto(Everywhere::b)
            .goto(Everywhere::b)
            .goto(END)
            .send(Everywhere::item, 1_u32)
            .send("item", 2_u32)
    }

    graph! { Everywhere<Trace> = Graph {
        nodes: [everywhere { goto: [b, item, END] }, b = node, item],
        edges: [START >> everywhere, b >> END, item >> END],
    } }

    #[tokio::test]
    async fn targets_may_be_many_and_a_node_runs_once_for_all_gotos() {
        assert_eq!(log::<Everywhere>().await, "b item1 item2");
    }

    async fn ends(state: &Trace) -> hier_core::Result<Command<Trace>> {
        let command = Command::update(says("ends").x(state.x + 1));
        Ok(if state.x < 2 { command.goto(Ends::ends) } else { command.goto(END) })
    }

    graph! { Ends<Trace> = Graph { nodes: [ends { goto: [ends, END] }], edges: [START >> ends] } }

    #[tokio::test]
    async fn goto_to_the_end_goes_nowhere() {
        assert_eq!(log::<Ends>().await, "ends ends ends");
    }
}

mod refused {
    use super::*;

    async fn strays() -> Command<Trace> {
        Command::update(says("strays")).goto(Strays::c)
    }

    graph! { Strays<Trace> = Graph {
        nodes: [strays { goto: [b] }, b = node, c = node],
        edges: [START >> [strays, c], b >> END, c >> END],
    } }

    async fn quits() -> Command<Trace> {
        Command::new().goto(END)
    }

    graph! { Quits<Trace> = Graph { nodes: [quits, b = node], edges: [START >> quits >> b >> END] } }

    /// A graph with a checkpointer and a graph without one treat these commands in the same way.
    #[tokio::test]
    async fn command_without_update_is_not_the_first_input() {
        for graph in [Quits::compile(), Quits::compile().checkpointer(MemorySaver::new())] {
            let error = graph.invoke(Command::new()).thread("t").await.expect_err("the graph has no input");
            assert!(matches!(error, RunError::EmptyInput { .. }), "{error}");
            let error = graph.invoke(Command::to("b")).thread("t").await.expect_err("nothing has run");
            assert!(error.to_string().contains("goes to `b`, and nothing has run yet"), "{error}");
            let out = graph.invoke(Command::update(says("in"))).thread("t").await.expect_err("`quits` goes to END");
            assert!(matches!(out, RunError::Node { .. }), "{out}");
        }
    }

    #[tokio::test]
    async fn undeclared_goto_is_an_error_with_the_fix() {
        let (node, error) = failure::<Strays>().await;
        assert_eq!(node, "strays");
        assert!(matches!(error.kind(), NodeErrorKind::Goto(_)) && !error.is_transient());
        assert!(error.to_string().contains("`strays { goto: [c] }`"), "{error}");
        let (_, error) = failure::<Quits>().await;
        assert!(error.to_string().contains("`quits { goto: [END] }`"), "{error}");
    }

    async fn wrong_payload() -> Command<Trace> {
        Command::new().send(WrongPayload::item, "text".to_owned())
    }

    graph! { WrongPayload<Trace> = Graph {
        nodes: [wrong_payload { goto: [item] }, item],
        edges: [START >> wrong_payload, item >> END],
    } }

    async fn no_payload() -> Command<Trace> {
        Command::new().goto(NoPayload::item)
    }

    graph! { NoPayload<Trace> = Graph {
        nodes: [no_payload { goto: [item] }, item],
        edges: [START >> no_payload, item >> END],
    } }

    #[tokio::test]
    async fn mistyped_payload_fails_its_node() {
        let (node, error) = failure::<WrongPayload>().await;
        assert_eq!(node, "item");
        assert!(error.to_string().contains("`u32`") && error.to_string().contains("String"), "{error}");
        let (node, error) = failure::<NoPayload>().await;
        assert_eq!(node, "item");
        assert!(error.to_string().contains("the node takes a `u32`, but a plain edge or a goto led to it"), "{error}");
    }

    async fn sends_to_the_end() -> Command<Trace> {
        Command::new().send(END, 1_u32)
    }

    graph! { ToTheEnd<Trace> = Graph {
        nodes: [sends_to_the_end { goto: [END] }],
        edges: [START >> sends_to_the_end],
    } }

    async fn elsewhere() -> Command<Trace> {
        Command::new().goto(Strays::b)
    }

    graph! { Elsewhere<Trace> = Graph {
        nodes: [elsewhere { goto: [b] }, b = node],
        edges: [START >> elsewhere, b >> END],
    } }

    #[tokio::test]
    async fn sends_to_end_and_foreign_targets_are_refused() {
        let (_, error) = failure::<ToTheEnd>().await;
        assert!(error.to_string().contains("`goto(END)`"), "{error}");
        let (_, error) = failure::<Elsewhere>().await;
        assert!(error.to_string().contains("`strays`") && error.to_string().contains("`elsewhere`"), "{error}");
    }

    #[tokio::test]
    async fn unknown_target_in_a_builder_gets_a_suggestion() {
        let mut graph: GraphBuilder<Trace> = GraphBuilder::new("built");
        graph = graph.node("from", async |_: Task<Trace>| Command::<Trace>::new().goto("taget"));
        graph = graph.node("target", async |_: Task<Trace>| says("target"));
        graph = graph.edge(START, "from").edge("from", "target").edge("target", END);
        let error = graph.compile().unwrap().invoke(Trace::update()).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`from`") && text.contains("`taget`") && text.contains("did you mean `target`?"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn refused_goto_discards_its_step() {
        let mut events =
            Strays::compile().stream(Trace::update().x(1)).modes([StreamMode::Values, StreamMode::Updates]);
        let mut received = Vec::new();
        while let Some(Ok(event)) = events.next().await {
            received.push(event.to_json().unwrap());
        }
        // The sibling's update is delivered, the values of a step that failed are not.
        assert_eq!(
            received.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>(),
            ["values", "updates"]
        );
        assert!(received[1]["data"].get("c").is_some(), "{}", received[1]);
    }
}

mod parent {
    use super::*;

    async fn up() -> Command<Trace> {
        Command::update(says("up")).goto(Outer::p2).parent()
    }

    graph! { Sub<Trace> = Graph {
        nodes: [s1 = node, up],
        edges: [START >> s1 >> up >> END],
    } }
    graph! { Outer<Trace> = Graph {
        nodes: [Sub { goto: [p2] }, p2 = node, p3 = node],
        edges: [START >> Sub >> p3 >> END, p2 >> END],
    } }

    #[tokio::test]
    async fn parent_command_drops_the_childs_writes() {
        assert_eq!(log::<Outer>().await, "up p2 p3");
    }

    graph! { Middle<Trace> = Graph {
        nodes: [Sub { goto: [p2] }, p2 = node],
        edges: [START >> Sub, p2 >> END],
    } }

    #[tokio::test]
    async fn parent_command_at_the_root_is_an_error() {
        let error = Sub::compile().invoke(Trace::update()).await.unwrap_err();
        assert!(matches!(&error, RunError::Parent { graph, node, .. } if graph == "sub" && node == "up"), "{error:?}");
        assert!(error.to_string().contains("is the root"), "{error}");
    }

    async fn to_middle() -> Command<Trace> {
        Command::update(says("up")).goto("p2").parent()
    }

    graph! { Leaf<Trace> = Graph { nodes: [to_middle], edges: [START >> to_middle >> END] } }
    graph! { Between<Trace> = Graph {
        nodes: [Leaf { goto: [p2] }, p2 = node],
        edges: [START >> Leaf, p2 >> END],
    } }
    graph! { Top<Trace> = Graph {
        nodes: [Between, p2 = node],
        edges: [START >> Between >> p2 >> END],
    } }

    #[tokio::test]
    async fn parent_command_reaches_the_closest_parent() {
        assert_eq!(log::<Top>().await, "up p2 p2");
    }

    graph! { NotDeclared<Trace> = Graph {
        nodes: [Leaf { goto: [p3] }, p2 = node, p3 = node],
        edges: [START >> [Leaf, p2], p2 >> END, p3 >> END],
    } }

    #[tokio::test]
    async fn parent_checks_the_command_like_its_own() {
        let (node, error) = failure::<NotDeclared>().await;
        assert_eq!(node, "Leaf");
        assert!(error.to_string().contains("`Leaf { goto: [p2] }`"), "{error}");
        // The constant of another graph is refused by the parent, too.
        let (_, error) = failure::<Middle>().await;
        assert!(error.to_string().contains("graph `outer`"), "{error}");
    }

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Other {
        x: i64,
    }

    async fn wrong_state() -> Command<Other> {
        // Says that the parent is over `Other`, which is this graph's own state.
        Command::update(Other::update().x(1)).parent()
    }

    async fn right_state() -> Command<Other> {
        Command::update(says("from another state").x(9)).parent()
    }

    graph! { Wrong<Other> = Graph { nodes: [wrong_state], edges: [START >> wrong_state >> END] } }
    graph! { Right<Other> = Graph { nodes: [right_state], edges: [START >> right_state >> END] } }
    graph! { OverWrong<Trace> = Graph { nodes: [Wrong], edges: [START >> Wrong >> END] } }
    graph! { OverRight<Trace> = Graph { nodes: [Right], edges: [START >> Right >> END] } }

    #[tokio::test]
    async fn parent_command_reaches_a_parent_with_its_state() {
        let error = OverWrong::compile().invoke(Trace::update()).await.unwrap_err();
        let RunError::Parent { graph, node, reason } = error.root() else { panic!("{error:?}") };
        assert_eq!((graph.as_str(), node.as_str()), ("wrong", "wrong_state"));
        assert!(reason.contains("Trace") && reason.contains("Other"), "{reason}");
        assert_eq!(log::<OverRight>().await, "from another state");
    }
}
