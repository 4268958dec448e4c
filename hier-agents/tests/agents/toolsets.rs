//! Tools that are listed at run time: `tools: [lookup, |desk| &desk.crm]`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Approval, ToolAnswer, ToolNode, ToolSpec, Toolset};
use hier_core::checkpoint::MemorySaver;
use hier_core::message::ToolCall;
use hier_core::state::wants_tools;
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use crate::support::{call, calls, finish, offered};

/// Tools that a test changes. The set counts its calls, and asks for the recipient before it ships.
#[derive(Clone, Debug)]
struct Crm {
    name: &'static str,
    tools: Arc<Mutex<Vec<ToolSpec>>>,
    called: Arc<AtomicUsize>,
}

impl Crm {
    fn new(name: &'static str, tools: &[&str]) -> Self {
        let crm = Self { name, tools: Arc::default(), called: Arc::default() };
        crm.has(tools.iter().map(|tool| spec(tool, "order")));
        crm
    }

    fn has(&self, tools: impl IntoIterator<Item = ToolSpec>) {
        *self.tools.lock().unwrap() = tools.into_iter().collect();
    }

    fn called(&self) -> usize {
        self.called.load(Ordering::Relaxed)
    }
}

/// A tool that takes one number.
fn spec(name: &str, argument: &str) -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {argument: {"type": "integer"}}, "required": [argument]});
    ToolSpec { name: name.to_owned(), description: format!("Does {name}."), parameters }
}

#[async_trait]
impl Toolset for Crm {
    fn name(&self) -> &str {
        self.name
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>> {
        Ok(self.tools.lock().unwrap().clone().into())
    }

    fn needs_approval(&self, tool: &str) -> bool {
        tool == "erase"
    }

    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer> {
        if call.name == "fail" {
            return Ok(ToolAnswer::Refused("no such order".to_owned()));
        }
        let number = run.step("count", async || Ok(self.called.fetch_add(1, Ordering::Relaxed) + 1)).await?;
        if call.name == "ship" {
            let to: String =
                run.interrupt(&"Who is it for?").with_schema(json!({"type": "string"})).check(short).await?;
            return Ok(ToolAnswer::Content(format!("{number}: shipped to {to}").into()));
        }
        Ok(ToolAnswer::Content(format!("{number}: {} {}", call.name, call.args).into()))
    }
}

fn short(answer: &Value) -> std::result::Result<(), String> {
    answer.as_str().filter(|text| text.len() < 10).map(|_| ()).ok_or_else(|| "it is too long".to_owned())
}

struct Desk {
    base: BaseContext,
    crm: Crm,
    depot: hier_agents::Prefixed<Crm>,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Looks an order up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("order {order} is late")
}

graph! {
    Support<BaseState, Desk> = Agent { tools: [lookup, |desk| &desk.crm, |desk| &desk.depot] }
}

graph! {
    Team<BaseState, Desk> = ReactGraph { tools: [lookup, |desk| &desk.crm] }
}

graph! {
    Own<BaseState, Desk> = Graph {
        nodes: [think, act = tools![lookup, |desk| &desk.crm, |desk| &desk.depot]],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
    }
}

async fn think(state: &BaseState, run: &Run<Desk>) -> Result<hier_agents::BaseStateUpdate> {
    let desk = run.context();
    let ask = run.model()?.ask(&state.messages).tools(tools![lookup]).toolset(&desk.crm).toolset(&desk.depot);
    Ok(BaseState::update().messages(ask.await?.message))
}

fn desk(model: &ScriptedModel) -> Desk {
    let depot = Crm::new("depot", &["find", "erase"]).prefixed("depot_");
    Desk { base: BaseContext::new(model.clone()), crm: Crm::new("crm", &["find", "ship", "fail"]), depot }
}

/// Returns the results of the tools.
fn answers(out: &Outcome<BaseState>) -> Vec<String> {
    let said = out.state().messages.iter().filter(|message| message.tool_call_id().is_some());
    said.map(Message::text).collect()
}

#[tokio::test]
async fn agent_calls_tools_of_toolsets_and_its_own() -> Result<()> {
    let model = ScriptedModel::new([
        calls([("lookup", json!({"order": 1})), ("find", json!({"order": 2}))]),
        call("depot_find", json!({"order": 3})),
        calls([("fail", json!({"order": 4})), ("fnid", json!({}))]),
        Message::assistant("Done."),
    ]);
    let out = Support::compile().invoke(Message::user("Go.")).context(desk(&model)).await?;
    assert_eq!(offered(&model, 0), ["lookup", "find", "ship", "fail", "depot_find", "depot_erase"]);
    let answers = answers(&out);
    assert_eq!(answers[..2], ["order 1 is late", "1: find {\"order\":2}"]);
    assert_eq!(answers[2], "1: find {\"order\":3}");
    assert_eq!(answers[3], "Error: no such order");
    let unknown = "Error: fnid is not a valid tool, try one of [lookup, find, ship, fail, depot_find, depot_erase].";
    assert_eq!(answers[4], unknown);
    Ok(())
}

#[tokio::test]
async fn hierarchy_members_call_toolsets() -> Result<()> {
    let model = ScriptedModel::new([
        calls([("find", json!({"order": 2})), ("find", json!({"order": 3}))]),
        call("find", json!({"order": 4})),
        finish("done"),
    ]);
    let out = Team::compile_as_root().invoke(BaseState::update()).context(desk(&model)).await?;
    let answers = answers(&out);
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert_eq!(answers[2], "3: find {\"order\":4}");
    Ok(())
}

#[tokio::test]
async fn custom_node_calls_toolsets() -> Result<()> {
    let model = ScriptedModel::new([
        calls([("lookup", json!({"order": 1})), ("depot_find", json!({"order": 3})), ("nothing", json!({}))]),
        Message::assistant("Done."),
    ]);
    let asked = BaseState::update().messages(Message::user("Go."));
    let out = Own::compile().invoke(asked).context(desk(&model)).await?;
    assert_eq!(offered(&model, 0), ["lookup", "find", "ship", "fail", "depot_find", "depot_erase"]);
    let answers = answers(&out);
    assert_eq!(answers[..2], ["order 1 is late", "1: find {\"order\":3}"]);
    assert!(answers[2].starts_with("Error: nothing is not a valid tool, try one of [lookup, find"), "{answers:?}");
    Ok(())
}

#[tokio::test]
async fn builders_accept_toolsets() -> Result<()> {
    let model = ScriptedModel::new([call("find", json!({"order": 2})), Message::assistant("Done.")]);
    let agent =
        AgentBuilder::<BaseState, Desk>::new("support").tool(lookup::TOOL).toolset(|desk| &desk.crm).compile()?;
    let out = agent.invoke(Message::user("Go.")).context(desk(&model)).await?;
    assert_eq!(answers(&out), ["1: find {\"order\":2}"]);

    let act = ToolNode::<BaseState, Desk>::new("act").toolset(|desk: &Desk| &desk.crm).compile()?;
    let asked = BaseState::update().messages(call("find", json!({"order": 5})));
    let out = act.invoke(asked).context(desk(&ScriptedModel::new([]))).await?;
    assert_eq!(answers(&out), ["1: find {\"order\":5}"]);
    Ok(())
}

#[tokio::test]
async fn duplicate_tool_names_are_an_error_that_names_both() {
    let failed = async |desk: Desk| {
        let run = Support::compile().invoke(Message::user("Go.")).context(desk).await;
        run.unwrap_err().to_string()
    };
    let silent = ScriptedModel::new([]);
    let mut doubled = desk(&silent);
    doubled.crm = Crm::new("crm", &["lookup"]);
    let said = failed(doubled).await;
    assert!(
        said.contains("the tool `lookup` of the toolset `crm` has the name of the agent's own tool `lookup`"),
        "{said}"
    );
    assert!(said.contains("Toolset::prefixed"), "{said}");

    let mut doubled = desk(&silent);
    doubled.crm = Crm::new("crm", &["depot_find"]);
    let said = failed(doubled).await;
    assert!(
        said.contains(
            "the tool `depot_find` of the toolset `depot` has the name of the tool `depot_find` of the toolset `crm`"
        ),
        "{said}"
    );

    let mut reserved = desk(&silent);
    reserved.crm = Crm::new("crm", &["final_answer"]);
    let said = failed(reserved).await;
    assert!(said.contains("the built-in tool `final_answer`"), "{said}");

    let mut unnamed = desk(&silent);
    unnamed.crm = Crm::new("crm", &["a b"]);
    let said = failed(unnamed).await;
    assert!(said.contains("the toolset `crm`: models cannot call the tool `a b`, because a name has"), "{said}");
    assert_eq!(silent.requests().len(), 0);
}

#[tokio::test]
async fn tool_with_changed_parameters_is_not_called() -> Result<()> {
    let model = ScriptedModel::new([
        calls([("depot_erase", json!({"order": 1})), ("depot_find", json!({"order": 2}))]),
        call("depot_erase", json!({"parcel": 1})),
        Message::assistant("Done."),
    ]);
    let (saver, thread) = (MemorySaver::new(), || Config::new().thread("t"));
    let support = Support::compile().checkpointer(saver);
    let context = desk(&model);
    let depot = context.depot.inner().clone();
    let again = || Desk {
        base: BaseContext::new(model.clone()),
        crm: Crm::new("crm", &[]),
        depot: depot.clone().prefixed("depot_"),
    };
    let asked = support.invoke(Message::user("Go.")).config(thread()).context(context).await?;
    assert!(!asked.is_finished());
    // Another version of the server runs when the person has answered. The tool that both versions accept is called.
    depot.has([spec("find", "order"), spec("erase", "parcel")]);
    let out = support.invoke(Command::resume(Approval::Approve)).config(thread()).context(again()).await?;
    assert!(!out.is_finished(), "the second call needs approval too");
    let out = support.invoke(Command::resume(Approval::Approve)).config(thread()).context(again()).await?;
    let said = answers(&out);
    assert!(said[0].starts_with("Error: not called: `depot_erase` now takes other arguments"), "{said:?}");
    assert!(said[0].contains("\"parcel\""), "{said:?}");
    assert_eq!(said[1..], ["1: find {\"order\":2}", "2: erase {\"parcel\":1}"]);

    // One that is gone is answered, too.
    let model = ScriptedModel::new([call("depot_erase", json!({"parcel": 1})), Message::assistant("Done.")]);
    let again = || Desk {
        base: BaseContext::new(model.clone()),
        crm: Crm::new("crm", &[]),
        depot: depot.clone().prefixed("depot_"),
    };
    assert!(!support.invoke(Message::user("Again.")).config(thread()).context(again()).await?.is_finished());
    depot.has([spec("find", "order")]);
    let out = support.invoke(Command::resume(Approval::Approve)).config(thread()).context(again()).await?;
    assert_eq!(answers(&out)[3], "Error: depot_erase is not a valid tool, try one of [lookup, depot_find].");
    Ok(())
}

/// Missing arguments are reported before an approval is requested.
#[tokio::test]
async fn call_with_a_missing_argument_needs_no_approval() -> Result<()> {
    let model = ScriptedModel::new([
        call("depot_erase", json!({"parcel": 1})),
        call("depot_erase", json!({"order": 1})),
        Message::assistant("Done."),
    ]);
    let support = Support::compile().checkpointer(MemorySaver::new());
    let (thread, context) = (|| Config::new().thread("t"), desk(&model));
    let asked = support.invoke(Message::user("Go.")).config(thread()).context(context).await?;
    let Outcome::Interrupted(asked) = asked else { panic!("no question") };
    assert_eq!(asked.questions[0].value["call"]["args"], json!({"order": 1}));
    let out = support.invoke(Command::resume(Approval::Approve)).config(thread()).context(desk(&model)).await?;
    let said = answers(&out);
    assert!(said[0].contains("`order` is missing"), "{said:?}");
    assert_eq!(said[1], "1: erase {\"order\":1}");
    Ok(())
}

#[tokio::test]
async fn waiting_call_continues_after_its_toolset_changed() -> Result<()> {
    let model = ScriptedModel::new([call("ship", json!({"order": 1})), Message::assistant("Done.")]);
    let support = Support::compile().checkpointer(MemorySaver::new());
    let thread = || Config::new().thread("t");
    let crm = Crm::new("crm", &["ship"]);
    let context = || Desk { crm: crm.clone(), ..desk(&model) };
    let asked = support.invoke(Message::user("Go.")).config(thread()).context(context()).await?;
    let Outcome::Interrupted(asked) = asked else { panic!("no question") };
    assert_eq!(asked.questions[0].schema, Some(json!({"type": "string"})));
    crm.has([spec("ship", "parcel")]);
    // An answer that does not pass the check is not taken.
    let refused =
        support.invoke(Command::resume("somebody far away")).config(thread()).context(context()).await.unwrap_err();
    assert!(refused.to_string().contains("it is too long"), "{refused}");
    let out = support.invoke(Command::resume("Anna")).config(thread()).context(context()).await?;
    assert_eq!(answers(&out), ["1: shipped to Anna"]);
    assert_eq!(crm.called(), 1);
    Ok(())
}

/// A deploy between two runs of a thread: the next run uses the new list of tools.
#[tokio::test]
async fn next_run_uses_its_own_tool_list() -> Result<()> {
    let saver = MemorySaver::new();
    let context = |model: &ScriptedModel, tools: &[ToolSpec]| {
        let desk = desk(model);
        desk.crm.has(tools.iter().cloned());
        desk
    };
    let before = ScriptedModel::new([call("find", json!({"order": 1})), Message::assistant("Found.")]);
    let support = Support::compile().checkpointer(saver.clone());
    let desk = context(&before, &[spec("find", "order")]);
    assert!(support.invoke(Message::user("Find.")).thread("t").context(desk).await?.is_finished());

    let after = ScriptedModel::new([call("find", json!({"parcel": 2})), Message::assistant("Found, too.")]);
    let deployed = Support::compile().checkpointer(saver.clone());
    let out =
        deployed.invoke(Message::user("Find.")).thread("t").context(context(&after, &[spec("find", "parcel")])).await?;
    let offered = &after.requests()[0].tools;
    let find = offered.iter().find(|tool| tool.name == "find").expect("it is offered");
    assert_eq!(find.parameters["required"], json!(["parcel"]));
    assert_eq!(answers(&out), ["1: find {\"order\":1}", "1: find {\"parcel\":2}"]);

    // A set without its tools: the old calls are part of the conversation, and its tools are not offered.
    let without = ScriptedModel::new([Message::assistant("I cannot look.")]);
    let out = deployed.invoke(Message::user("Again.")).thread("t").context(context(&without, &[])).await?;
    assert!(out.is_finished());
    assert!(!without.requests()[0].tools.iter().any(|tool| tool.name == "find"));
    assert_eq!(without.requests()[0].messages.iter().filter(|message| message.tool_call_id().is_some()).count(), 2);
    Ok(())
}

#[tokio::test]
async fn arguments_are_converted_by_the_schema_of_the_toolset() {
    let model = ScriptedModel::new([
        call("cancel", json!({"order": "17"})),
        call("cancel", json!({"order": 18.0})),
        call("cancel", json!({"order": [19]})),
        call("cancel", json!({"order": "nineteen"})),
        Message::assistant("Done."),
    ]);
    let desk = Desk {
        base: BaseContext::new(model),
        crm: Crm::new("crm", &["cancel"]),
        depot: Crm::new("depot", &[]).prefixed("depot_"),
    };
    let out = Support::compile().invoke(Message::user("?")).context(desk).await.unwrap();
    let results = out.state().messages.iter().filter(|message| message.tool_call_id().is_some());
    let results: Vec<String> = results.map(Message::text).collect();
    // The toolset refuses arguments that cannot be converted.
    let wanted = ["1: cancel {\"order\":17}", "2: cancel {\"order\":18}", "3: cancel {\"order\":19}"];
    assert_eq!((&results[..3], &*results[3]), (&wanted.map(str::to_owned)[..], "4: cancel {\"order\":\"nineteen\"}"));
}
