//! Views that own their fields, as the return values of nodes, and the channels that graphs know of their nodes.

use hier_core::graph::{Failure, Graph};
use hier_core::prelude::*;
use hier_core::state::Overwrite;
use hier_spec::flow::{NodeChannels, never_read};

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Base {
    #[state(rename = "result")]
    verdict: String,
    artifact: Option<String>,
}

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: Base,
    risk: i64,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Risk<'a> {
    risk: &'a i64,
    verdict: &'a String,
}

#[derive(View, Clone)]
#[view(of = Filing)]
struct Assessment {
    verdict: String,
    artifact: Option<String>,
    #[view(optional)]
    findings: Option<Vec<String>>,
}

#[derive(View)]
#[view(of = Base)]
struct Verdict {
    verdict: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Cleared {
    findings: Overwrite<Vec<String>>,
}

#[derive(View)]
#[view(of = Filing)]
struct Start {
    risk: i64,
    #[view(optional)]
    verdict: Option<String>,
}

fn assessment(verdict: &str, findings: Option<Vec<String>>) -> Assessment {
    Assessment { verdict: verdict.to_owned(), artifact: None, findings }
}

async fn assess(risk: Risk<'_>) -> Result<Assessment, NodeError> {
    let findings = (*risk.risk > 1).then(|| vec![format!("risk {}", risk.risk)]);
    Ok(assessment(&format!("{}!", risk.verdict), findings))
}

async fn part() -> Verdict {
    Verdict { verdict: "of the part".to_owned() }
}

async fn clear(risk: Risk<'_>) -> Option<Cleared> {
    (*risk.risk > 5).then(|| Cleared { findings: Overwrite(vec!["cleared".to_owned()]) })
}

async fn decide() -> Command<Filing> {
    Command::update(assessment("commanded", Some(vec!["a".to_owned()])))
        .with_update(Filing::update().risk(9))
        .with_update(Verdict { verdict: "last".to_owned() })
}

async fn fail() -> Result<Assessment, NodeError> {
    Err(NodeError::permanent("no"))
}

async fn recover(failure: Failure) -> Assessment {
    assessment(&failure.node, None)
}

fn start() -> Filing {
    Filing {
        findings: vec!["old".to_owned()],
        base: Base { artifact: Some("kept?".to_owned()), ..Base::default() },
        ..Filing::default()
    }
}

graph! { Assess<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
graph! { Part<Filing> = SimpleGraph { compute: part } }
graph! { Clear<Filing> = SimpleGraph { compute: clear } }
graph! { Decide<Filing> = SimpleGraph { compute: decide } }
graph! { Recover<Filing> = SimpleGraph { compute: fail { on_error: recover } } }
graph! { Outer<Filing> = Graph { nodes: [Assess, clear], edges: [START >> Assess >> clear >> END] } }
graph! { Entered<Filing> = Graph { input: Start, output: Assessment, nodes: [assess], edges: [START >> assess >> END] } }

async fn run<G>(state: Filing) -> Filing
where
    G: Graph<State = Filing, Context = (), Input = hier_core::graph::FullState, Output = Filing>,
{
    G::compile().invoke(state).await.unwrap().into_state()
}

#[tokio::test]
async fn each_field_is_a_write_through_the_reducer() {
    let risky = run::<Assess>(Filing { risk: 2, ..start() }).await;
    assert_eq!((risky.base.verdict.as_str(), risky.base.artifact), ("!", None));
    assert_eq!(risky.findings, ["old", "risk 2"]);
}

#[tokio::test]
async fn an_empty_optional_field_keeps_its_channel() {
    assert_eq!(run::<Assess>(start()).await.findings, ["old"]);
}

#[tokio::test]
async fn a_view_of_the_flattened_state_writes_to_the_whole_state() {
    assert_eq!(run::<Part>(start()).await.base.verdict, "of the part");
}

#[tokio::test]
async fn an_overwrite_replaces_and_no_view_writes_nothing() {
    assert_eq!(run::<Clear>(Filing { risk: 6, ..start() }).await.findings, ["cleared"]);
    assert_eq!(run::<Clear>(start()).await, start());
}

#[tokio::test]
async fn commands_take_views_and_updates_in_order() {
    let state = run::<Decide>(start()).await;
    assert_eq!((state.base.verdict.as_str(), state.risk), ("last", 9));
    assert_eq!(state.findings, ["old", "a"]);
}

#[tokio::test]
async fn handlers_of_errors_return_views() {
    assert_eq!(run::<Recover>(start()).await.base.verdict, "fail");
}

#[tokio::test]
async fn subgraphs_return_the_writes_of_views() {
    let state = run::<Outer>(Filing { risk: 6, ..start() }).await;
    assert_eq!((state.base.verdict.as_str(), state.findings), ("!", vec!["cleared".to_owned()]));
}

#[tokio::test]
async fn an_input_may_leave_fields_out_and_an_output_has_them() {
    let graph = Entered::compile();
    let out = graph.invoke(Start { risk: 3, verdict: None }).await.unwrap();
    assert_eq!(
        (out.state().verdict.as_str(), out.state().findings.as_deref()),
        ("!", Some(&["risk 3".to_owned()][..]))
    );
    let out = graph.invoke(Start { risk: 0, verdict: Some("so".to_owned()) }).await.unwrap();
    assert_eq!(out.state().verdict, "so!");
}

fn channels(graph: &'static hier_spec::GraphSpec, node: usize) -> NodeChannels {
    graph.nodes[node].flow.expect("known").channels()
}

#[allow(clippy::unnecessary_wraps, reason = "the lists of a node are optional")]
fn names(names: &[&'static str]) -> Option<Vec<hier_spec::Text>> {
    Some(names.iter().map(|name| hier_spec::Text::Borrowed(*name)).collect())
}

#[test]
fn specs_name_the_channels_of_typed_nodes() {
    let assess = channels(Assess::SPEC, 0);
    assert_eq!(assess.reads, names(&["risk", "result"]));
    assert_eq!(assess.writes, names(&["findings", "result", "artifact"]));
    assert_eq!(channels(Decide::SPEC, 0), NodeChannels { reads: None, writes: None });
    assert_eq!(channels(Outer::SPEC, 0).writes, names(&["findings", "result", "artifact"]), "of the subgraph");
    assert_eq!(never_read(Assess::SPEC), ["artifact", "findings"]);
}
