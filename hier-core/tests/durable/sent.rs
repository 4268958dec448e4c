//! A node reads a sent payload the same from memory and from storage.

use hier_core::checkpoint::MemorySaver;
use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    #[reducer(append)]
    log: Vec<String>,
    fits: bool,
    other: u8,
}

async fn send(state: &Case) -> Command<Case> {
    let sent = Case { log: vec!["sent".to_owned()], ..Case::default() };
    if state.fits { Command::new().send(Desk::read, sent) } else { Command::new().send(Desk::read, 5_u8) }
}

/// Takes no `Sent`.
async fn read(state: &Case) -> CaseUpdate {
    Case::update().log([format!("{} {}", state.log.join("+"), state.other)])
}

graph! { Desk<Case> = Graph { nodes: [send { goto: [read] }, read], edges: [START >> send, read >> END] } }

/// The log of a run, in one go or in two.
async fn ran(fits: bool, stops: bool) -> Result<Vec<String>, String> {
    let graph = Desk::compile().checkpointer(MemorySaver::new());
    let input = Case::update().fits(fits).other(7).log(["own"]);
    let config = Config::new().thread("t");
    let first = if stops { config.clone().interrupt_before(["read"]) } else { config.clone() };
    let mut outcome = graph.invoke(input).config(first).await;
    if stops {
        assert!(!outcome.expect("it stops").is_finished());
        outcome = graph.invoke(()).config(config).await;
    }
    outcome.map(|outcome| outcome.into_state().log).map_err(|error| error.to_string())
}

#[tokio::test]
async fn sent_state_is_equal_in_memory_and_stored() {
    let expected = ["own", "sent 0"].map(str::to_owned).to_vec();
    assert_eq!((ran(true, false).await, ran(true, true).await), (Ok(expected.clone()), Ok(expected)));
    let error = ran(false, false).await.unwrap_err();
    assert!(error.contains("`read` reads the state, but its payload is not an object of channels"), "{error}");
    assert_eq!(ran(false, true).await.unwrap_err(), error);
}

#[tokio::test]
async fn unreadable_payload_of_a_caller_is_refused_before_the_run() {
    let graph = Desk::compile().checkpointer(MemorySaver::new());
    let config = Config::new().thread("t");
    let _ = graph.invoke(Case::update().fits(true)).config(config.clone()).await.expect("it ends");
    let before = graph.state(config.clone()).await.expect("a state");
    let error = graph.invoke(Command::new().send("read", 5_u8)).config(config.clone()).await.unwrap_err().to_string();
    assert!(error.contains("`read` reads the state"), "{error}");
    assert_eq!(graph.state(config).await.expect("a state").checkpoint, before.checkpoint);
}
