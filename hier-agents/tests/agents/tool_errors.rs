//! A tool that fails is named by the error.

use hier_agents::ToolErrors;
use hier_agents::prelude::*;
use hier_core::graph::CompiledGraph;
use hier_core::{NodeErrorKind, Result};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, call, finish, prompt};

graph! {
    Raises<Filing> = ReactGraph { tools: [look, parse, refuse, light] }
}

graph! {
    Tells<Filing> = ReactGraph { tools: [look, parse, refuse, light], tool_errors: ToolErrors::Tell }
}

/// Looks.
#[tool]
async fn look() -> String {
    "nothing".to_owned()
}

/// Fails with an error of another type.
#[tool]
async fn parse() -> Result<u8> {
    Ok("paper".parse()?)
}

/// Fails for good.
#[tool]
async fn refuse() -> Result<String> {
    Err(NodeError::permanent("the printer is out of paper"))
}

/// Panics.
#[tool]
async fn light() -> String {
    panic!("the fuse was lit")
}

/// Runs an agent that calls this tool and then ends.
async fn run(graph: CompiledGraph<Filing, BaseContext>, tool: &str) -> (ScriptedModel, Result<Filing, RunError>) {
    let model = ScriptedModel::new([call(tool, json!({})), finish("done")]);
    let context = BaseContext::new(model.clone());
    let end = graph.invoke(Filing::update()).context(context).await;
    (model, end.map(|outcome| outcome.state().clone()))
}

/// The tool that the error names, and what happened to it.
fn blamed(error: &RunError) -> (&str, &NodeError) {
    let RunError::Node { node, error: outer, .. } = error else { panic!("{error:?}") };
    let NodeErrorKind::Tool { tool, error: inner } = outer.kind() else { panic!("{error:?}") };
    assert_eq!(node, "tool");
    assert_eq!(outer.is_transient(), inner.is_transient());
    (tool, inner)
}

#[tokio::test]
async fn tool_error_names_the_tool_and_keeps_its_source() {
    let error = run(Raises::compile_as_root(), "refuse").await.1.expect_err("the tool fails");
    assert!(error.to_string().ends_with("failed: tool `refuse`: the printer is out of paper"), "{error}");
    let (tool, inner) = blamed(&error);
    assert_eq!((tool, inner.is_transient()), ("refuse", false));

    let error = run(Raises::compile_as_root(), "parse").await.1.expect_err("the tool fails");
    let (tool, inner) = blamed(&error);
    assert_eq!((tool, inner.is_transient()), ("parse", true));
    let RunError::Node { error: outer, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(outer.source(), Some(source) if source.is::<std::num::ParseIntError>()), "{outer:?}");
}

/// A panic is a mistake in the program that no model can fix.
#[tokio::test]
async fn tool_panic_names_the_tool_and_fails_the_run() {
    for graph in [Raises::compile_as_root(), Tells::compile_as_root()] {
        let error = run(graph, "light").await.1.expect_err("the tool panics");
        let (tool, inner) = blamed(&error);
        assert_eq!((tool, inner.is_transient()), ("light", false));
        assert!(matches!(inner.kind(), NodeErrorKind::Panic(_)), "{inner:?}");
        let text = format!("tool `light`: panicked: the fuse was lit (at {}:", file!());
        assert!(error.to_string().contains(&text), "{error}");
    }
}

#[tokio::test]
async fn reported_tool_error_omits_the_tool_name() {
    let (model, end) = run(Tells::compile_as_root(), "refuse").await;
    end.expect("the model receives the error");
    let received = prompt(&model, 1);
    assert!(received.iter().any(|text| text.ends_with("the printer is out of paper")), "{received:?}");
    assert!(!received.iter().any(|text| text.contains("tool `refuse`")), "{received:?}");
}

graph! { Chooses<Filing> = Agent { tools: [leave] } }
graph! { Reports<Filing> = ReactGraph { tools: [leave] } }

/// Wants to end the agent.
#[tool]
async fn leave() -> Command<Filing> {
    Command::new().goto(END)
}

/// The nodes of an agent cannot declare targets, so the error names another way.
#[tokio::test]
async fn tool_of_an_agent_cannot_choose_a_node() {
    for agent in [Chooses::compile(), Reports::compile_as_root()] {
        let model = ScriptedModel::new([call("leave", json!({}))]);
        let error = agent.invoke(Filing::update()).context(BaseContext::new(model)).await.unwrap_err().to_string();
        assert!(error.contains("the tool `leave` returned a command with a target, but the agent `"), "{error}");
        assert!(error.ends_with("add `.parent()` to the command to go to a node of the outer graph"), "{error}");
    }
}
