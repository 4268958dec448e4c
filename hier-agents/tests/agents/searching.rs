//! Agents with many tools: `search: true`.

use std::sync::{Arc, Mutex};

use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Compact, ToolAnswer, ToolSearch, ToolSpec, Toolset};
use hier_core::checkpoint::MemorySaver;
use hier_core::message::ToolCall;
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{call, calls, finish, offered, prompt, report};

/// The tools of a server, which a test changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crm {
    tools: Arc<Mutex<Vec<ToolSpec>>>,
    called: Arc<Mutex<Vec<String>>>,
}

impl Crm {
    pub(crate) fn new(tools: &[(&str, &str)]) -> Self {
        let crm = Self::default();
        crm.has(tools);
        crm
    }

    fn has(&self, tools: &[(&str, &str)]) {
        *self.tools.lock().unwrap() = tools.iter().map(|(name, about)| spec(name, about)).collect();
    }

    pub(crate) fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }
}

fn spec(name: &str, about: &str) -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {"order": {"type": "integer"}}});
    ToolSpec { name: name.to_owned(), description: about.to_owned(), parameters }
}

#[async_trait]
impl Toolset for Crm {
    fn name(&self) -> &'static str {
        "crm"
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>> {
        Ok(self.tools.lock().unwrap().clone().into())
    }

    fn needs_approval(&self, tool: &str) -> bool {
        tool == "erase"
    }

    async fn call(&self, call: &ToolCall, _: &Run) -> Result<ToolAnswer> {
        self.called.lock().unwrap().push(call.name.clone());
        Ok(ToolAnswer::Content(format!("{}: done", call.name).into()))
    }
}

#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) base: BaseContext,
    pub(crate) crm: Crm,
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

/// Pays money out.
#[tool(needs_approval)]
async fn pay(amount: u32) -> String {
    format!("paid {amount}")
}

graph! {
    Support<BaseState, Desk> = Agent {
        system: "You help.",
        tools: [lookup, pay, |desk| &desk.crm],
        search: ToolSearch { above: 3, results: 2 },
    }
}

graph! {
    Simple<BaseState, Desk> = Agent { tools: [lookup, |desk| &desk.crm], search: true }
}

graph! {
    Off<BaseState, Desk> = Agent { tools: [lookup, |desk| &desk.crm], search: false }
}

graph! {
    Team<BaseState, Desk> = ReactGraph {
        tools: [lookup, |desk| &desk.crm],
        search: ToolSearch { above: 1 },
        subagents: [Member { clear_messages: true }],
    }
}

graph! {
    /// Does a part.
    Member<BaseState, Desk> = ReactGraph { tools: [lookup, |desk| &desk.crm], search: ToolSearch { above: 1 } }
}

pub(crate) const SHOP: [(&str, &str); 3] =
    [("refund", "Gives money back.\nNeeds an order."), ("ship", "Sends a parcel."), ("erase", "Deletes a customer.")];

pub(crate) fn desk(model: &ScriptedModel, tools: &[(&str, &str)]) -> Desk {
    Desk { base: BaseContext::new(model.clone()), crm: Crm::new(tools) }
}

pub(crate) fn search(query: &str) -> Message {
    call("search_tools", json!({ "query": query }))
}

/// Returns the results of the tools.
pub(crate) fn answers(state: &BaseState) -> Vec<String> {
    state.messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text).collect()
}

fn found(state: &BaseState) -> Vec<&str> {
    state.found_tools.names().collect()
}

fn thread() -> Config {
    Config::new().thread("t")
}

#[tokio::test]
async fn found_tools_are_part_of_later_requests() -> Result<()> {
    let model = ScriptedModel::new([
        search("send a parcel"),
        call("ship", json!({"order": 1})),
        search("money back"),
        calls([("refund", json!({"order": 2})), ("ship", json!({"order": 2}))]),
        Message::assistant("Done."),
    ]);
    let desk = desk(&model, &SHOP);
    let out = Support::compile().invoke(Message::user("Go.")).context(desk.clone()).await?;
    assert_eq!(offered(&model, 0), ["search_tools"]);
    assert_eq!(offered(&model, 1), ["search_tools", "ship"]);
    assert_eq!(offered(&model, 2), ["search_tools", "ship"]);
    assert_eq!(offered(&model, 3), ["search_tools", "ship", "refund", "pay"]);
    assert_eq!(model.requests()[1].tools[1], spec("ship", "Sends a parcel."));
    let answers = answers(out.state());
    assert_eq!(answers[0], "You can now call: ship");
    assert_eq!(answers[1], "ship: done");
    assert_eq!(answers[2], "You can now call: refund, pay");
    assert_eq!(desk.crm.called(), ["ship", "refund", "ship"]);
    assert_eq!(found(out.state()), ["ship", "refund", "pay"]);
    // The names precede the system prompt, and are the same in each request.
    let listing = "You have more tools than you see. Find a tool with `search_tools`, by what it does or by its name, before you \
                   call it. The tools:\n- lookup: Looks an order up.\n- pay: Pays money out.\n- refund\n- ship\n- erase";
    for place in 0..5 {
        assert_eq!(prompt(&model, place)[..2], [listing, "You help."], "{place}");
    }
    // They are not part of the conversation.
    assert_eq!(out.state().messages.get(0).unwrap().text(), "Go.");
    Ok(())
}

#[tokio::test]
async fn limit_is_the_number_of_tools_that_are_still_sent() -> Result<()> {
    for (tools, is_searched) in [(&SHOP[..1], false), (&SHOP[..2], true), (&[], false)] {
        let model = ScriptedModel::new([Message::assistant("Done.")]);
        let _ = Support::compile().invoke(Message::user("Go.")).context(desk(&model, tools)).await?;
        let offered = offered(&model, 0);
        assert_eq!(offered == ["search_tools"], is_searched, "{offered:?}");
        assert_eq!(prompt(&model, 0).len(), if is_searched { 3 } else { 2 });
    }
    // By default, 30 tools are sent.
    let names: Vec<String> = (0..30).map(|number| format!("tool_{number}")).collect();
    let tools: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "Works.")).collect();
    for (count, expected) in [(29, 30), (30, 1)] {
        let model = ScriptedModel::new([Message::assistant("Done.")]);
        let _ = Simple::compile().invoke(Message::user("Go.")).context(desk(&model, &tools[..count])).await?;
        assert_eq!(offered(&model, 0).len(), expected);
    }
    let model = ScriptedModel::new([Message::assistant("Done.")]);
    let _ = Off::compile().invoke(Message::user("Go.")).context(desk(&model, &tools)).await?;
    assert_eq!(offered(&model, 0).len(), 31);
    Ok(())
}

#[tokio::test]
async fn tool_that_was_not_found_is_not_called() -> Result<()> {
    let model = ScriptedModel::new([
        calls([
            ("refund", json!({"order": 1})),
            ("lookup", json!({"order": 1})),
            ("search_tools", json!({"query": "refund"})),
        ]),
        calls([("refund", json!({"order": 1})), ("ship", json!({"order": 1}))]),
        call("refnud", json!({"order": 1})),
        Message::assistant("Done."),
    ]);
    let desk = desk(&model, &SHOP);
    let out = Support::compile().invoke(Message::user("Go.")).context(desk.clone()).await?;
    let answers = answers(out.state());
    let unfound = |name: &str| {
        format!(
            "Error: not called: you have not found the tool `{name}` yet. Call `search_tools` with {{\"query\": \"{name}\"}}, \
             then call it again."
        )
    };
    // Also if the same answer searches for it.
    assert_eq!(answers[..2], [unfound("refund"), unfound("lookup")]);
    assert_eq!(answers[2], "You can now call: refund");
    assert_eq!(answers[3..5], [unfound("ship"), "refund: done".to_owned()]);
    assert_eq!(
        answers[5],
        "Error: refnud is not a valid tool. Did you mean `refund`? Search for the tool that you need."
    );
    assert_eq!(desk.crm.called(), ["refund"]);
    Ok(())
}

#[tokio::test]
async fn model_that_repeats_an_unfound_call_is_stopped() -> Result<()> {
    let model = ScriptedModel::reacting(|_| call("refund", json!({"order": 1})));
    let out = Support::compile().invoke(Message::user("Go.")).context(desk(&model, &SHOP)).await?;
    assert_eq!(
        out.ending().map(ToString::to_string).as_deref(),
        Some("the agent ended early: it repeated a call that returned the same result 3 times in a row")
    );
    Ok(())
}

#[tokio::test]
async fn invalid_and_fruitless_searches_are_answered() -> Result<()> {
    let model = ScriptedModel::new([
        call("search_tools", json!({})),
        call("search_tools", json!({"query": ["sun"]})),
        search("weather"),
        Message::assistant("Done."),
    ]);
    let out = Support::compile().invoke(Message::user("Go.")).context(desk(&model, &SHOP)).await?;
    let answers = answers(out.state());
    assert_eq!(answers[0], "Error: `query` must be a string: words about the task, or names of tools");
    assert!(answers[1].starts_with("No tool matches `sun`."), "{answers:?}");
    assert!(answers[2].starts_with("No tool matches `weather`."), "{answers:?}");
    assert!(out.state().found_tools.is_empty());
    Ok(())
}

/// A kill between the search and the call, on two machines: the thread knows the tools, and asks for approval as ever.
#[tokio::test]
async fn thread_keeps_what_was_found() -> Result<()> {
    let saver = MemorySaver::new();
    let model =
        ScriptedModel::new([call("pay", json!({"amount": 7})), search("pay"), call("pay", json!({"amount": 7}))]);
    let support = Support::compile().checkpointer(saver.clone());
    let asked = support.invoke(Message::user("Go.")).config(thread()).context(desk(&model, &SHOP)).await?;
    let Outcome::Interrupted(asked) = asked else { panic!("no question") };
    assert_eq!(asked.questions.len(), 1, "only the second call asks");

    // Another process resumes it. Meanwhile the server has lost the tools that made the search necessary.
    let later = ScriptedModel::new([Message::assistant("Paid."), call("erase", json!({}))]);
    let again = Support::compile().checkpointer(saver.clone());
    let context = desk(&later, &SHOP[..1]);
    let out = again.invoke(Command::resume(Approval::Approve)).config(thread()).context(context).await?;
    assert_eq!(answers(out.state())[2], "paid 7");
    assert_eq!(offered(&later, 0), ["lookup", "pay", "refund"]);

    // The next turn still has what was found, and what was not found needs a search.
    let context = desk(&later, &SHOP);
    let late = ScriptedModel::new([call("erase", json!({})), search("erase"), call("erase", json!({}))]);
    let context = Desk { base: BaseContext::new(late.clone()), ..context };
    let out = again.invoke(Message::user("Erase.")).config(thread()).context(context).await?;
    assert!(!out.is_finished(), "erasing needs approval");
    assert_eq!(offered(&late, 0), ["search_tools", "pay"]);
    assert_eq!(offered(&late, 2), ["search_tools", "pay", "erase"]);
    Ok(())
}

#[tokio::test]
async fn found_tool_is_sent_while_its_server_has_it() -> Result<()> {
    let crm = Crm::new(&SHOP);
    let change = crm.clone();
    let model = ScriptedModel::reacting(move |request| {
        match request.messages.iter().filter(|message| message.tool_call_id().is_some()).count() {
            0 => search("refund or ship"),
            1 => {
                change.has(&[("ship", "Sends a parcel."), ("erase", ""), ("bill", ""), ("cancel", "")]);
                call("refund", json!({"order": 1}))
            }
            2 => {
                change.has(&[("ship", "Sends letters."), ("refund", "Gives money back."), ("erase", "")]);
                call("ship", json!({"order": 1}))
            }
            _ => Message::assistant("Done."),
        }
    });
    let desk = Desk { base: BaseContext::new(model.clone()), crm: crm.clone() };
    let out = Support::compile().invoke(Message::user("Go.")).context(desk).await?;
    assert_eq!(offered(&model, 1), ["search_tools", "refund", "ship"]);
    assert_eq!(offered(&model, 2), ["search_tools", "ship"]);
    assert_eq!(offered(&model, 3), ["search_tools", "refund", "ship"]);
    assert_eq!(model.requests()[3].tools[2].description, "Sends letters.");
    let answers = answers(out.state());
    assert!(answers[1].starts_with("Error: refund is not a valid tool."), "{answers:?}");
    assert_eq!(answers[2], "ship: done");
    Ok(())
}

/// A call whose tool was sent is made, even if its server has so many tools by then that they must be found.
#[tokio::test]
async fn sent_tool_is_called_after_the_list_has_grown() -> Result<()> {
    let crm = Crm::new(&SHOP[..1]);
    let change = crm.clone();
    let model = ScriptedModel::reacting(move |request| {
        if request.messages.iter().any(|message| message.tool_call_id().is_some()) {
            return Message::assistant("Done.");
        }
        change.has(&SHOP);
        call("refund", json!({"order": 1}))
    });
    let desk = Desk { base: BaseContext::new(model.clone()), crm: crm.clone() };
    let out = Support::compile().invoke(Message::user("Go.")).context(desk).await?;
    assert_eq!(answers(out.state()), ["refund: done"]);
    assert_eq!(offered(&model, 1), ["search_tools"]);
    Ok(())
}

#[tokio::test]
async fn members_of_a_hierarchy_search_for_themselves() -> Result<()> {
    let model = ScriptedModel::new([
        search("refund"),
        calls([("refund", json!({"order": 1})), ("ship", json!({"order": 1}))]),
        call("member", json!({"task": "Ship it."})),
        call("refund", json!({"order": 2})),
        search("ship"),
        call("ship", json!({"order": 2})),
        report("Shipped."),
        call("refund", json!({"order": 3})),
        finish("done"),
    ]);
    let desk = desk(&model, &SHOP);
    let out = Team::compile_as_root().invoke(BaseState::update()).context(desk.clone()).await?;
    let fixed = ["raise_exception", "finish_task", "member", "search_tools"];
    assert_eq!(offered(&model, 0), fixed);
    assert_eq!(offered(&model, 1), [&fixed[..], &["refund"]].concat());
    assert_eq!(offered(&model, 3), ["report_to_supervisor", "raise_exception", "search_tools"]);
    assert_eq!(offered(&model, 5), ["report_to_supervisor", "raise_exception", "search_tools", "ship"]);
    assert_eq!(offered(&model, 7), [&fixed[..], &["refund"]].concat());
    assert_eq!(desk.crm.called(), ["refund", "ship", "refund"]);
    assert_eq!(found(out.state()), ["refund"]);
    Ok(())
}

#[tokio::test]
async fn compaction_keeps_found_tools() -> Result<()> {
    let agent = AgentBuilder::<BaseState, Desk>::new("support")
        .tool(lookup::TOOL)
        .toolset(|desk| &desk.crm)
        .search(ToolSearch::new().above(0))
        .layer(Compact::new().context_tokens(2_000))
        .compile()?
        .checkpointer(MemorySaver::new());
    let model = ScriptedModel::reacting(|request| {
        let is_summary = request.messages.get(0).is_some_and(|first| first.text().starts_with("You summarize"));
        let has_searched = request.messages.iter().any(|message| message.tool_call_id().is_some());
        let is_first = request.messages.iter().any(|message| message.text().starts_with("0: "));
        if is_first && !has_searched && !is_summary { search("order") } else { Message::assistant("Done.") }
    });
    for turn in 0..30 {
        let long = format!("{turn}: {}", "and this as well, please ".repeat(20));
        let _ = agent.invoke(Message::user(long)).config(thread()).context(desk(&model, &[])).await?;
    }
    let state = agent.state(thread()).await?.values;
    assert!(state.compaction.is_some());
    assert_eq!(found(&state), ["lookup"]);
    let last = model.requests().len() - 1;
    assert_eq!(offered(&model, last), ["search_tools", "read_earlier", "lookup"]);
    assert!(prompt(&model, last)[0].starts_with("You have more tools than you see."));
    Ok(())
}

/// A tool with the name of the search.
#[tool]
async fn search_tools(order: u32) -> String {
    format!("{order} tools")
}

#[tokio::test]
async fn name_of_the_search_is_reserved_only_with_a_search() -> Result<()> {
    let agent = || AgentBuilder::<BaseState, Desk>::new("support").tool(search_tools::TOOL);
    let error = agent().search(true).compile().unwrap_err().to_string();
    assert!(error.contains("the tool `search_tools` has the name of a built-in tool: rename one"), "{error}");
    let model = ScriptedModel::new([call("search_tools", json!({"order": 3})), Message::assistant("Done.")]);
    let out = agent().search(false).compile()?.invoke(Message::user("Go.")).context(desk(&model, &[])).await?;
    assert_eq!(answers(out.state()), ["3 tools"]);

    let taken = desk(&ScriptedModel::new([]), &[("search_tools", "")]);
    let error = Simple::compile().invoke(Message::user("Go.")).context(taken).await.unwrap_err().to_string();
    assert!(
        error.contains("the tool `search_tools` of the toolset `crm` has the name of the built-in tool"),
        "{error}"
    );

    let error = agent().search(ToolSearch::new().results(0)).compile().unwrap_err().to_string();
    assert!(error.contains("a search for tools with `results` 0 finds nothing"), "{error}");
    Ok(())
}
