//! `on_entry` and `on_exit`: code that runs when a graph is entered and left, as a root, as a node, as a subagent.

use hier_core::RunError;
use hier_core::checkpoint::{ListQuery, MemorySaver};
use hier_core::prelude::*;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    title: String,
    #[reducer(append)]
    log: Vec<String>,
    trouble: String,
}

graph! {
    /// Asks once, between two steps.
    Desk<Case> = Graph {
        nodes: [ask, close],
        edges: [START >> ask >> close >> END],
        on_entry: enter,
        on_exit: leave,
    }
}

graph! {
    Office<Case> = Graph { nodes: [work, Desk, after], edges: [START >> work >> Desk >> after >> END] }
}

async fn ask(state: &Case, run: &Run) -> Result<CaseUpdate> {
    let answer: String = run.interrupt(&state.title).await?;
    Ok(Case::update().log([answer]))
}

async fn close() -> CaseUpdate {
    Case::update().log(["closed".to_owned()])
}

async fn work() -> CaseUpdate {
    Case::update().title("two").log(["worked".to_owned()])
}

async fn after(state: &Case) -> CaseUpdate {
    Case::update().log([format!("after {}", state.title)])
}

fn enter(state: &Case) -> CaseUpdate {
    Case::update().title(format!("case {}", state.title)).log([format!("entered {}", state.title)])
}

async fn leave(state: &Case) -> Result<CaseUpdate> {
    if state.trouble == "at the exit" {
        return Err(NodeError::new("the door is locked"));
    }
    Ok(Case::update().title("left").log([format!("left with {}", state.log.len())]))
}

#[tokio::test]
async fn a_root_is_entered_with_an_input_and_left_at_its_end() {
    let saver = MemorySaver::new();
    let desk = Desk::compile().checkpointer(saver);
    let asked = desk.invoke(Case::update().title("one"), Config::thread("t"), ()).await.expect("a run");
    assert_eq!(asked.state().log, ["entered one"]);
    let Outcome::Interrupted(asked) = asked else { panic!("it asks: {asked:?}") };
    assert_eq!(asked.questions[0].value, "case one");

    let end = desk.invoke(Command::resume("yes"), Config::thread("t"), ()).await.expect("a run");
    assert_eq!(
        end.state().log,
        ["entered one", "yes", "closed", "left with 3"],
        "it goes on, and is not entered again"
    );
    assert_eq!(end.state().title, "left");
    let stored = desk.state(Config::thread("t")).await.expect("a state");
    assert_eq!(stored.values.log, end.state().log, "what leaving it wrote is stored with the last step");
    let history = desk.history(Config::thread("t"), ListQuery::default()).await.expect("a history");
    assert_eq!(history.len(), 4, "the input and three steps");

    let again = desk.invoke((), Config::thread("t"), ()).await.expect("a run");
    assert_eq!(again.state().log.len(), 4, "what is finished is not left again");
    let next = desk.invoke(Case::update().title("two"), Config::thread("t"), ()).await.expect("a run");
    assert_eq!(next.state().log[4..], ["entered two"], "each input enters it");
}

#[tokio::test]
async fn without_a_saver_too() {
    let shop = Shop::compile();
    let end = shop.invoke(Case::update().title("one"), Config::default(), ()).await.expect("a run");
    assert_eq!(end.state().log, ["entered one", "closed", "left with 2"]);
}

graph! {
    Shop<Case> = Graph { nodes: [close], edges: [START >> close >> END], on_entry: enter, on_exit: leave }
}

#[tokio::test]
async fn a_graph_that_is_a_node_is_entered_once_however_often_it_stops() {
    let office = Office::compile().checkpointer(MemorySaver::new());
    let asked = office.invoke(Case::update(), Config::thread("t"), ()).await.expect("a run");
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    let end = office.invoke(Command::resume("yes"), Config::thread("t"), ()).await.expect("a run");
    assert_eq!(end.state().log, ["worked", "yes", "closed", "left with 4", "after left"]);
}

#[tokio::test]
async fn a_failure_at_the_exit_leaves_the_last_step_to_be_done() {
    let desk = Shop::compile().checkpointer(MemorySaver::new());
    let failed = desk.invoke(Case::update().trouble("at the exit"), Config::thread("t"), ()).await;
    let error = failed.expect_err("the exit fails");
    assert!(matches!(&error, RunError::Node { node, .. } if node == "on_exit"), "{error:?}");
    let stored = desk.state(Config::thread("t")).await.expect("a state");
    assert_eq!(stored.next, ["close"]);
    let mended = Command::update(Case::update().trouble(""));
    let end = desk.invoke(mended, Config::thread("t"), ()).await.expect("a run");
    assert_eq!(end.state().log.last().expect("a log"), "left with 2");
}

graph! {
    Asking<Case> = Graph { nodes: [close], edges: [START >> close >> END], on_entry: asks }
}

graph! {
    Going<Case> = Graph { nodes: [close], edges: [START >> close >> END], on_exit: goes }
}

graph! {
    Falling<Case> = Graph { nodes: [close], edges: [START >> close >> END], on_entry: falls }
}

async fn asks(run: &Run) -> Result<CaseUpdate> {
    let title: String = run.interrupt(&json!("which?")).await?;
    Ok(Case::update().title(title))
}

fn goes() -> Command<Case> {
    Command::update(Case::update()).goto(END)
}

fn falls(state: &Case) -> CaseUpdate {
    assert!(!state.title.is_empty(), "no title");
    Case::update()
}

#[tokio::test]
async fn what_only_nodes_can_do_is_refused() {
    let asked = Asking::compile().invoke(Case::update(), Config::default(), ()).await.expect_err("it asks").to_string();
    assert!(asked.contains("on_entry") && asked.contains("cannot ask: let a node do it"), "{asked}");
    let gone = Going::compile().invoke(Case::update(), Config::default(), ()).await.expect_err("it goes").to_string();
    assert!(gone.contains("on_exit") && gone.contains("cannot say where to go: let a node do it"), "{gone}");
    let fell =
        Falling::compile().invoke(Case::update(), Config::default(), ()).await.expect_err("it falls").to_string();
    assert!(fell.contains("on_entry") && fell.contains("no title"), "{fell}");
}
