//! Agents with a search whose models leave it to their provider, also if a layer asks a model without such a search.

use hier_agents::layer::{Emails, Fallback, Redact};
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Compact, ModelError, ModelOptions, ToolChoice, ToolSearch};
use hier_core::Result;
use hier_core::checkpoint::MemorySaver;
use hier_testkit::ScriptedModel;
use schemars::JsonSchema;
use serde_json::json;

use crate::searching::{Crm, SHOP, answers, search};
use crate::support::{call, calls, offered, prompt};

/// A desk with two models.
struct Desk {
    base: BaseContext,
    other: ScriptedModel,
    crm: Crm,
}

impl Desk {
    fn new(model: &ScriptedModel, other: &ScriptedModel) -> Self {
        Self { base: BaseContext::new(model.clone()), other: other.clone(), crm: Crm::new(&SHOP) }
    }
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Writes to ada@example.com.
#[tool]
async fn write(text: String) -> String {
    format!("sent {text}")
}

graph! {
    Support<BaseState, Desk> = Agent {
        system: "You help.",
        tools: [write, |desk| &desk.crm],
        search: ToolSearch { above: 2, results: 2 },
        layers: [Fallback(|desk| &desk.other), Redact(Emails)],
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Verdict {
    paid: bool,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    #[state(flatten)]
    base: BaseState,
    verdict: Option<Verdict>,
}

graph! {
    Judge<Case, Desk> = Agent {
        tools: [write, |desk| &desk.crm],
        search: ToolSearch { above: 2 },
        answer: verdict,
        layers: [Fallback(|desk| &desk.other)],
    }
}

const ALL: [&str; 4] = ["write", "refund", "ship", "erase"];

fn failing() -> ScriptedModel {
    let fail = |_: &_| Err(ModelError::Refused { model: "first".to_owned(), reason: "it is closed".to_owned() });
    ScriptedModel::try_reacting(fail).searches_tools()
}

fn deferred(model: &ScriptedModel, place: usize) -> Vec<String> {
    model.requests()[place].deferred.iter().cloned().collect()
}

fn found(state: &BaseState) -> Vec<&str> {
    state.found_tools.names().collect()
}

#[tokio::test]
async fn provider_receives_all_tools_and_searches_them() -> Result<()> {
    let model = ScriptedModel::new([
        calls([("refund", json!({"order": 1})), ("ship", json!({"order": 1}))]),
        call("refund", json!({"order": 2})),
        Message::assistant("Done."),
    ]);
    let (model, none) = (model.searches_tools(), ScriptedModel::new([]));
    let out = Support::compile().invoke(Message::user("Go.")).context(Desk::new(&model, &none)).await?;
    for place in 0..3 {
        // The list does not change, so the provider's cache covers it.
        assert_eq!(offered(&model, place), ALL, "{place}");
        assert_eq!(deferred(&model, place), ["erase", "refund", "ship", "write"]);
        assert_eq!(prompt(&model, place)[..2], ["You help.", "Go."]);
    }
    assert_eq!(answers(out.state()), ["refund: done", "ship: done", "refund: done"]);
    assert_eq!(found(out.state()), ["refund", "ship"]);
    Ok(())
}

#[tokio::test]
async fn few_tools_are_not_deferred() -> Result<()> {
    let model = ScriptedModel::new([Message::assistant("Done.")]).searches_tools();
    let desk = Desk { crm: Crm::new(&SHOP[..1]), ..Desk::new(&model, &model) };
    let _ = Support::compile().invoke(Message::user("Go.")).context(desk).await?;
    assert_eq!(offered(&model, 0), ["write", "refund"]);
    assert!(deferred(&model, 0).is_empty());
    let value = serde_json::to_value(&model.requests()[0]).unwrap();
    assert!(value.get("deferred").is_none(), "recordings stay valid: {value}");
    Ok(())
}

#[tokio::test]
async fn forced_tool_is_not_deferred() -> Result<()> {
    let model = ScriptedModel::new([call("ship", json!({})), Message::assistant("Done.")]).searches_tools();
    let options = ModelOptions::new().tool_choice(ToolChoice::Tool("ship".to_owned()));
    let agent = AgentBuilder::<BaseState, Desk>::new("support").toolset(|desk: &Desk| &desk.crm).options(options);
    let agent = agent.search(ToolSearch::new().above(0)).compile()?;
    let _ = agent.invoke(Message::user("Go.")).context(Desk::new(&model, &model)).await?;
    assert_eq!(deferred(&model, 0), ["erase", "refund"]);
    Ok(())
}

/// The other model gets the names and `search_tools`, redacted like everything else, and must find what it calls.
#[tokio::test]
async fn fallback_without_a_search_receives_the_names() -> Result<()> {
    let other = ScriptedModel::new([
        calls([("refund", json!({"order": 1})), ("ship", json!({"order": 1}))]),
        search("refund"),
        call("refund", json!({"order": 1})),
        Message::assistant("Done."),
    ]);
    let first = failing();
    let desk = Desk::new(&first, &other);
    let crm = desk.crm.clone();
    let out = Support::compile().invoke(Message::user("Go.")).context(desk).await?;
    assert_eq!(offered(&first, 0), ALL);
    assert_eq!(offered(&other, 0), ["search_tools"]);
    assert_eq!(offered(&other, 2), ["search_tools", "refund"]);
    assert!(deferred(&other, 0).is_empty());
    let listing = &prompt(&other, 0)[0];
    assert!(listing.starts_with("You have more tools than you see."), "{listing}");
    assert!(listing.contains("\n- write: Writes to [redacted].\n- refund"), "{listing}");
    let answers = answers(out.state());
    assert!(answers[0].contains("you have not found the tool `refund` yet"), "{answers:?}");
    assert!(answers[1].contains("you have not found the tool `ship` yet"), "{answers:?}");
    assert_eq!(answers[2..], ["You can now call: refund", "refund: done"]);
    assert_eq!(crm.called(), ["refund"]);
    Ok(())
}

/// Also the other way round: the first model has no search, so the other one searches with its tool.
#[tokio::test]
async fn fallback_with_a_search_keeps_the_request() -> Result<()> {
    let fail = |_: &_| Err(ModelError::Refused { model: "first".to_owned(), reason: "it is closed".to_owned() });
    let first = ScriptedModel::try_reacting(fail);
    let other = ScriptedModel::new([search("refund"), Message::assistant("Done.")]).searches_tools();
    let out = Support::compile().invoke(Message::user("Go.")).context(Desk::new(&first, &other)).await?;
    assert_eq!(offered(&other, 0), ["search_tools"]);
    assert_eq!(answers(out.state()), ["You can now call: refund"]);
    Ok(())
}

#[tokio::test]
async fn other_models_of_a_thread_know_what_the_provider_found() -> Result<()> {
    let support = Support::compile().checkpointer(MemorySaver::new());
    let ask = async |model: &ScriptedModel| {
        let run = support.invoke(Message::user("Go.")).thread("t").context(Desk::new(model, model));
        run.await.map(|out| out.state().clone())
    };
    let first = ScriptedModel::new([call("ship", json!({"order": 1})), Message::assistant("Done.")]).searches_tools();
    ask(&first).await?;
    let second = ScriptedModel::new([call("ship", json!({"order": 2})), Message::assistant("Done.")]);
    ask(&second).await?;
    assert_eq!(offered(&second, 0), ["search_tools", "ship"]);
    let third = ScriptedModel::new([call("refund", json!({"order": 3})), Message::assistant("Done.")]).searches_tools();
    let state = ask(&third).await?;
    assert_eq!(deferred(&third, 0), ["erase", "refund", "ship", "write"]);
    assert_eq!(answers(&state), ["ship: done", "ship: done", "refund: done"]);
    Ok(())
}

#[tokio::test]
async fn typed_answers_keep_their_tool_in_a_fallback() -> Result<()> {
    let other = ScriptedModel::new([call("final_answer", json!({"paid": true}))]);
    let first = failing().native_output();
    let out = Judge::compile().invoke(Message::user("Go.")).context(Desk::new(&first, &other)).await?;
    assert_eq!(offered(&first, 0), ALL);
    assert_eq!(offered(&other, 0), ["final_answer", "search_tools"]);
    assert_eq!(out.state().verdict, Some(Verdict { paid: true }));
    Ok(())
}

/// Deferred tools are not part of the context, so they do not make a conversation too long.
#[tokio::test]
async fn deferred_tools_do_not_fill_the_context() -> Result<()> {
    let about = "word ".repeat(8_000);
    let tools = [("big", &*about), ("small", "Works.")];
    let agent = AgentBuilder::<BaseState, Desk>::new("support").toolset(|desk: &Desk| &desk.crm);
    let agent = agent.search(ToolSearch::new().above(0)).layer(Compact::new().context_tokens(4_000)).compile()?;
    let model = ScriptedModel::reacting(|_| Message::assistant("Done.")).searches_tools();
    let desk = Desk { crm: Crm::new(&tools), ..Desk::new(&model, &model) };
    let talk = (0..6).map(|turn| Message::user(format!("{turn}: {}", "please ".repeat(20))));
    let out = agent.invoke(BaseState::update().messages(talk.collect::<hier_agents::Messages>())).context(desk).await?;
    assert!(out.state().compaction.is_none());
    assert_eq!(model.requests().len(), 1);
    Ok(())
}
