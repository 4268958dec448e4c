//! `on_entry` and `on_exit`: code that runs when a graph is entered and left, as a root, as a node, as a subagent.

use std::sync::{Arc, Mutex};

use hier_core::checkpoint::{ListQuery, MemorySaver};
use hier_core::prelude::*;
use hier_core::{Result, RunControl, RunError, StateUpdate};
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
async fn hooks_of_a_root_run_with_its_input_and_end() {
    let saver = MemorySaver::new();
    let desk = Desk::compile().checkpointer(saver);
    let asked = desk.invoke(Case::update().title("one")).thread("t").await.expect("a run");
    assert_eq!(asked.state().log, ["entered one"]);
    let Outcome::Interrupted(asked) = asked else { panic!("it asks: {asked:?}") };
    assert_eq!(asked.questions[0].value, "case one");

    let end = desk.invoke(Command::resume("yes")).thread("t").await.expect("a run");
    assert_eq!(
        end.state().log,
        ["entered one", "yes", "closed", "left with 3"],
        "it goes on, and is not entered again"
    );
    assert_eq!(end.state().title, "left");
    let stored = desk.state("t").await.expect("a state");
    assert_eq!(stored.values.log, end.state().log, "the writes of the exit hook are stored with the last step");
    let history = desk.history("t", ListQuery::default()).await.expect("a history");
    assert_eq!(history.len(), 4, "the input and three steps");

    let again = desk.invoke(()).thread("t").await.expect("a run");
    assert_eq!(again.state().log.len(), 4, "the exit hook of a finished thread does not run again");
    let next = desk.invoke(Case::update().title("two")).thread("t").await.expect("a run");
    assert_eq!(next.state().log[4..], ["entered two"], "each input enters it");
}

#[tokio::test]
async fn hooks_run_without_a_saver() {
    let shop = Shop::compile();
    let end = shop.invoke(Case::update().title("one")).await.expect("a run");
    assert_eq!(end.state().log, ["entered one", "closed", "left with 2"]);
}

graph! {
    Shop<Case> = Graph { nodes: [close], edges: [START >> close >> END], on_entry: enter, on_exit: leave }
}

#[tokio::test]
async fn entry_hook_of_a_subgraph_runs_once_across_stops() {
    let office = Office::compile().checkpointer(MemorySaver::new());
    let asked = office.invoke(Case::update()).thread("t").await.expect("a run");
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    let end = office.invoke(Command::resume("yes")).thread("t").await.expect("a run");
    assert_eq!(end.state().log, ["worked", "yes", "closed", "left with 4", "after left"]);
}

#[tokio::test]
async fn failed_exit_hook_runs_again_alone() {
    let desk = Shop::compile().checkpointer(MemorySaver::new());
    let failed = desk.invoke(Case::update().trouble("at the exit")).thread("t").await;
    let error = failed.expect_err("the exit fails");
    assert!(matches!(&error, RunError::Node { node, .. } if node == "on_exit"), "{error:?}");
    let stored = desk.state("t").await.expect("a state");
    assert!(stored.next.is_empty() && !stored.is_finished(), "{stored:?}");
    let fixed = Command::update(Case::update().trouble(""));
    let end = desk.invoke(fixed).thread("t").await.expect("a run");
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
async fn hooks_cannot_interrupt_or_route() {
    let asked = Asking::compile().invoke(Case::update()).await.expect_err("it asks").to_string();
    assert!(asked.contains("on_entry") && asked.contains("cannot ask: move it to a node"), "{asked}");
    let gone = Going::compile().invoke(Case::update()).await.expect_err("it goes").to_string();
    assert!(gone.contains("on_exit") && gone.contains("cannot choose targets: move it to a node"), "{gone}");
    let fell = Falling::compile().invoke(Case::update()).await.expect_err("it falls").to_string();
    assert!(fell.contains("on_entry") && fell.contains("no title"), "{fell}");
}

graph! {
    /// Has nothing to do if there is a title.
    Gate<Case> = Graph {
        nodes: [close],
        edges: [START >> if is_titled { END } else { close }, close >> END],
        on_entry: enter,
        on_exit: leave,
    }
}

fn is_titled(state: &Case) -> bool {
    state.title != "case "
}

#[tokio::test]
async fn hooks_run_for_a_root_without_tasks() {
    let saver = MemorySaver::new();
    for gate in [Gate::compile(), Gate::compile().checkpointer(saver.clone())] {
        let end = gate.invoke(Case::update().title("one")).thread("t").await.expect("a run");
        assert_eq!((end.state().log.join(", "), &*end.state().title), ("entered one, left with 1".to_owned(), "left"));
        let closed = gate.invoke(Case::update()).thread("other").await.expect("a run");
        assert_eq!(closed.state().log, ["entered ", "closed", "left with 2"]);
    }
    let stored = Gate::compile().checkpointer(saver).state("t").await.expect("a state");
    assert_eq!((stored.values.title.as_str(), stored.next.len()), ("left", 0));
}

graph! {
    /// Ends with a command for its outer graph.
    Escape<Case> = Graph { nodes: [flee], edges: [START >> flee >> END], on_exit: leave }
}

graph! {
    Hall<Case> = Graph { nodes: [Escape { goto: [after] }, after], edges: [START >> Escape >> END, after >> END] }
}

async fn flee(state: &Case) -> Command<Case> {
    let command = Command::update(Case::update().log(["fled".to_owned()]));
    if state.title == "far" { command.goto("after").parent() } else { command.parent() }
}

#[tokio::test]
async fn exit_hook_of_a_subgraph_runs_after_a_command_for_the_parent() {
    let near = Hall::compile().invoke(Case::update().title("near")).await.expect("a run");
    assert_eq!(near.state().log, ["fled", "left with 0"]);
    let far = Hall::compile().invoke(Case::update().title("far")).await.expect("a run");
    assert_eq!(far.state().log, ["fled", "left with 0", "after left"]);
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Search {
    gives_up: bool,
    #[reducer(append)]
    found: Vec<String>,
    #[reducer(sum)]
    cost: i64,
}

/// Keeps only the last write to `found`.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Report {
    gives_up: bool,
    found: Vec<String>,
    #[reducer(sum)]
    cost: i64,
}

graph! {
    Searching<Search> = Graph { nodes: [seek, decide], edges: [START >> seek >> decide >> END], on_exit: conclude }
}

graph! {
    Reporting<Report> = Graph { nodes: [Searching], edges: [START >> Searching >> END] }
}

async fn seek() -> SearchUpdate {
    Search::update().found(["a".to_owned()]).found(["b".to_owned()]).cost(1)
}

async fn decide(state: &Search) -> Command<Search> {
    if state.gives_up { Command::update(Report::update()).parent() } else { Command::new() }
}

async fn conclude(state: &Search) -> SearchUpdate {
    // The sum with the cost of `seek` is too large for the channel.
    let cost = if state.gives_up { i64::MAX } else { 10 };
    Search::update().found(["z".to_owned()]).cost(cost)
}

#[tokio::test]
async fn exit_writes_do_not_return_changes_that_a_subgraph_abandons() {
    let run = async |gives_up| {
        let input = Report::update().gives_up(gives_up).found(["old".to_owned()]);
        let end = Reporting::compile().invoke(input).await.expect("a run").into_state();
        (end.found.join(" "), end.cost)
    };
    assert_eq!(run(false).await, ("old a b z".to_owned(), 11));
    assert_eq!(run(true).await, ("z".to_owned(), i64::MAX));
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Visits {
    visits: u32,
}

graph! {
    Guest<Visits> = Graph { nodes: [stay], edges: [START >> stay >> END], on_entry: arrive }
}

graph! {
    House<Case> = Graph { nodes: [Guest { checkpoints: per_thread }], edges: [START >> Guest >> END] }
}

fn arrive(state: &Visits) -> VisitsUpdate {
    Visits::update().visits(state.visits + 1)
}

async fn stay() {}

#[tokio::test]
async fn entry_hook_sees_the_kept_state() {
    let saver = MemorySaver::new();
    let house = House::compile().checkpointer(saver.clone());
    for visits in 1..4 {
        let end = house.invoke(Case::update().title("in")).thread("t").await.expect("a run");
        assert!(matches!(end, Outcome::Finished(_)), "{end:?}");
        let guest = Guest::compile().checkpointer(saver.clone());
        let kept = guest.state(Config::new().thread("t").namespace("Guest")).await.expect("a state");
        assert_eq!(kept.values.visits, visits);
    }
}

/// The effects, with their nodes and keys.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<(String, String)>>>);

fn note(run: &Run<Ledger>) {
    run.context().0.lock().expect("a list").push((run.node().to_owned(), run.idempotency_key()));
}

async fn charge(run: &Run<Ledger>) {
    note(run);
}

fn greet(run: &Run<Ledger>) -> CaseUpdate {
    note(run);
    Case::update()
}

fn thank(state: &Case, run: &Run<Ledger>) -> Result<CaseUpdate> {
    note(run);
    if state.trouble.is_empty() { Ok(Case::update()) } else { Err(NodeError::permanent("the door is locked")) }
}

graph! {
    Till<Case, Ledger> = Graph { nodes: [charge], edges: [START >> charge >> END], on_entry: greet, on_exit: thank }
}

graph! {
    Market<Case, Ledger> = Graph { nodes: [Till], edges: [START >> Till >> END] }
}

#[tokio::test]
async fn each_hook_has_a_stable_idempotency_key() {
    let saver = MemorySaver::new();
    let (till, market) = (Till::compile().checkpointer(saver.clone()), Market::compile().checkpointer(saver));
    let (start, fix) = (|| Case::update().trouble("yes"), || Command::update(Case::update().trouble("")));
    let (alone, inside) = (Ledger::default(), Ledger::default());
    till.invoke(start()).thread("alone").context(alone.clone()).await.expect_err("it cannot be left");
    till.invoke(fix()).thread("alone").context(alone.clone()).await.map(drop).expect("a run");
    market.invoke(start()).thread("inside").context(inside.clone()).await.expect_err("it cannot be left");
    market.invoke(()).thread("inside").context(inside.clone()).await.expect_err("still");
    for ledger in [alone, inside] {
        let noted = ledger.0.lock().expect("a list").clone();
        let of = |name: &str| noted.iter().filter(|(node, _)| node == name).map(|(_, key)| key).collect::<Vec<_>>();
        let (entry, charged, exit) = (of("on_entry"), of("charge"), of("on_exit"));
        assert_eq!((entry.len(), exit.len()), (1, 2), "{noted:?}");
        assert_eq!(charged.len(), 1, "{noted:?}");
        assert_eq!(exit[0], exit[1]);
        assert!(entry[0] != exit[0] && charged.iter().all(|key| *key != entry[0] && *key != exit[0]), "{noted:?}");
    }
}

graph! {
    Counter<Case, Ledger> = Graph { nodes: [ask_twice], edges: [START >> ask_twice >> END], on_entry: greet }
}

async fn ask_twice(run: &Run<Ledger>) -> Result<CaseUpdate> {
    let answers: [String; 2] = [run.interrupt(&"first").await?, run.interrupt(&"second").await?];
    Ok(Case::update().log(answers))
}

#[tokio::test]
async fn input_that_waits_next_to_open_questions_enters_the_graph_once() {
    let (counter, ledger) = (Counter::compile().checkpointer(MemorySaver::new()), Ledger::default());
    let entries = || ledger.0.lock().expect("a list").len();
    let asked = counter.invoke(Case::update().title("one")).thread("t").context(ledger.clone()).await;
    assert!(matches!(asked, Ok(Outcome::Interrupted(_))), "{asked:?}");
    let input = StateUpdate::update(Case::update().title("two")).as_node("__input__");
    counter.update_state("t", input).await.expect("an update");
    let control = RunControl::new();
    control.request_drain("later");
    let stopped = counter.invoke(()).thread("t").control(control).context(ledger.clone()).await;
    assert!(matches!(stopped, Ok(Outcome::Stopped(_))), "{stopped:?}");
    drop(counter.invoke(()).thread("t").context(ledger.clone()).await.expect("it asks"));
    drop(counter.invoke(Command::resume("a")).thread("t").context(ledger.clone()).await.expect("it asks"));
    assert_eq!(entries(), 1, "the second input has not been applied");
    let end = counter.invoke(Command::resume("b")).thread("t").context(ledger.clone()).await.expect("a run");
    assert_eq!((entries(), end.state().title.as_str(), end.state().log.join(", ")), (2, "two", "a, b".to_owned()));
}
