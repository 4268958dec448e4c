//! `helper` and `guest`: agents whose tools run partly in the client. The request brings the tools of `guest`. Their model
//! calls the tools that the user's last message names, and then repeats their results.

use hier_agents::prelude::*;
use hier_agents::{ChatRequest, ClientTools};
use hier_core::message::{Body, ToolCall};
use hier_server::{RunRequest, Server};
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

/// Adds the graphs.
pub(crate) fn graphs(server: Server) -> Server {
    let context = BaseContext::new(ScriptedModel::reacting(obeys));
    let of_guest = {
        let context = context.clone();
        move |run: &RunRequest| {
            ClientTools::of_request(&run.configurable).map(|tools| context.clone().client_tools(tools))
        }
    };
    server.graph("helper", Helper::compile(), context).graph("guest", Guest::compile(), of_guest)
}

/// A conversation, and the theme of the page, which the client changes, too.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Page {
    #[state(flatten)]
    base: BaseState,
    theme: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Picked {
    name: String,
}

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(kind: String) -> Picked;

/// Returns the position of the user.
#[tool(client)]
async fn locate() -> String;

/// Weighs the page.
#[tool]
async fn weigh() -> &'static str {
    "5 kg"
}

graph! {
    /// Helps on a page.
    pub(crate) Helper<Page> = Agent { tools: [pick_file, locate, weigh], subagents: [Clerk {}] }
}

graph! {
    /// Looks for files.
    pub(crate) Clerk<Page> = Agent { tools: [pick_file] }
}

graph! {
    /// Runs the tools of the request, and one of its own.
    pub(crate) Guest<Page> = Agent { tools: [weigh, |context| &context.client_tools] }
}

/// The arguments of the calls.
fn args(tool: &str) -> Value {
    match tool {
        "pick_file" => json!({ "kind": "md" }),
        "clerk" => json!({ "task": "pick_file" }),
        _ => json!({}),
    }
}

fn obeys(request: &ChatRequest) -> Message {
    let messages: Vec<_> = request.messages.iter().collect();
    let results = messages.iter().rev().take_while(|message| message.tool_call_id().is_some());
    let mut results: Vec<String> = results.map(|message| message.text()).collect();
    let orders = || messages.iter().filter(|message| matches!(message.body, Body::User { .. }));
    let order = orders().next_back().map(|message| message.text()).unwrap_or_default();
    let has_tool = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    let named: Vec<&str> = order.split_whitespace().filter(|word| has_tool(word)).collect();
    if !results.is_empty() || named.is_empty() {
        results.reverse();
        return Message::assistant(format!("Done: {}", results.join(" and ")));
    }
    let agent = if has_tool("clerk") { "helper" } else { "clerk" };
    let id = |place: usize| format!("{agent}-{}-{place}", orders().count());
    let calls = named.iter().enumerate();
    Message::calls(
        "",
        calls.map(|(place, name)| ToolCall { name: (*name).to_owned(), args: args(name), id: id(place) }),
    )
}
