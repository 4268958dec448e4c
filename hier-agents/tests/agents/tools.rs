//! `#[tool]`: schemas, argument errors, and the arguments of functions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{Json, ToolCallId};
use hier_agents::{NamedTool, Tool, ToolOutput, ToolSpec};
use hier_core::Result;
use hier_core::graph::{GraphBuilder, Retry, Task};
use hier_core::message::{Content, ToolCall};
use serde_json::{Value, json};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Part {
    year: u16,
    #[reducer(messages)]
    messages: Messages,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    part: Part,
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Heading<'a> {
    title: &'a String,
    year: &'a u16,
}

struct Desk {
    rate: f64,
}

/// Calls a tool in a real run.
async fn call<T: Tool<Filing, Desk> + Copy>(tool: T, args: Value) -> Result<ToolOutput<Filing>> {
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    let mut graph = GraphBuilder::<Filing, Desk>::new("calls");
    graph = graph.node("tool", move |task: Task<Filing, Desk>| {
        let call = ToolCall { name: tool.spec().name, args: args.clone(), id: "c1".to_owned() };
        let send = send.clone();
        async move {
            let _ = send.send(tool.call(&call, &task).await);
        }
    });
    graph = graph.edge(START, "tool").edge("tool", END);
    let graph = graph.compile().expect("a graph of one node");
    let input = Filing::update().year(2026_u16).title("Return");
    let _ = graph.invoke(input).context(Desk { rate: 0.07 }).await.expect("the node does not fail");
    receive.recv().await.expect("the tool was called")
}

/// The text that the model is answered.
async fn answer<T: Tool<Filing, Desk> + Copy>(tool: T, args: Value) -> String {
    match call(tool, args).await.unwrap() {
        ToolOutput::Content(content) => content.text(),
        other => panic!("{other:?}"),
    }
}

/// Returns the error about the arguments that the model receives.
async fn refusal<T: Tool<Filing, Desk> + Copy>(tool: T, args: Value) -> String {
    match call(tool, args).await.unwrap() {
        ToolOutput::Invalid(what) => what,
        other => panic!("{other:?}"),
    }
}

fn spec<T: Tool<Filing, Desk>>(tool: &T) -> ToolSpec {
    tool.spec()
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Region {
    North,
    South,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Span {
    from: u16,
    to: Option<u16>,
}

/// Looks up a tax rate.
///
/// Of any year.
#[tool]
async fn lookup_rate(
    /// The year of the rate.
    year: u16,
    region: Option<Region>,
    /// Where to look
    /// besides.
    spans: Vec<Span>,
    #[default = 10] limit: i64,
    #[default = "all"] scope: String,
    run: &Run<Desk>,
    state: &Part,
    #[inject] heading: Heading<'_>,
    id: ToolCallId,
    call: &ToolCall,
) -> String {
    let spans = spans.iter().map(|span| span.to.unwrap_or(span.from) - span.from).sum::<u16>();
    let Heading { title, year: of } = heading;
    assert_eq!((id.as_str(), call.id.as_str(), *of), ("c1", "c1", state.year));
    format!("{title} {year} {region:?} {spans} {limit} {scope} {}", run.context().rate)
}

#[test]
fn schema_has_only_arguments_of_the_model() {
    let spec = spec(&lookup_rate::TOOL);
    assert_eq!(spec.name, "lookup_rate");
    assert_eq!(spec.description, "Looks up a tax rate.\n\nOf any year.");
    let expected = json!({
        "type": "object",
        "properties": {
            "year": {
                "type": "integer", "format": "uint16", "minimum": 0, "maximum": 65535, "description": "The year of the rate.",
            },
            "region": { "type": "string", "enum": ["north", "south"] },
            "spans": {
                "type": "array",
                "description": "Where to look\nbesides.",
                "items": {
                    "type": "object",
                    "properties": {
                        "from": { "type": "integer", "format": "uint16", "minimum": 0, "maximum": 65535 },
                        "to": { "type": ["integer", "null"], "format": "uint16", "minimum": 0, "maximum": 65535 },
                    },
                    "required": ["from"],
                },
            },
            "limit": { "type": "integer", "format": "int64", "default": 10 },
            "scope": { "type": "string", "default": "all" },
        },
        "required": ["year", "spans"],
        "additionalProperties": false,
    });
    assert_eq!(spec.parameters, expected);
}

#[tokio::test]
async fn function_receives_arguments_and_injected_values() {
    let args =
        json!({ "year": 2025, "region": "south", "spans": [{ "from": 1, "to": 3 }], "limit": 3, "scope": "some" });
    assert_eq!(answer(lookup_rate::TOOL, args).await, "Return 2025 Some(South) 2 3 some 0.07");
    let few = json!({ "year": 2025, "spans": [], "region": null });
    assert_eq!(answer(lookup_rate::TOOL, few).await, "Return 2025 None 0 10 all 0.07");
}

#[tokio::test]
async fn all_argument_faults_are_reported_with_paths() {
    let args = json!({ "region": "west", "spans": [{ "from": 1 }, { "from": "2" }], "limitt": 3, "id": "x" });
    let expected = "the arguments of `lookup_rate` do not fit:\n\
        - there is no argument `id`; known: `year`, `region`, `spans`, `limit`, `scope`\n\
        - there is no argument `limitt`; did you mean `limit`?\n\
        - `year` is missing\n\
        - `region`: unknown variant `west`, expected `north` or `south`\n\
        - `spans[1].from`: invalid type: string \"2\", expected u16";
    assert_eq!(refusal(lookup_rate::TOOL, args).await, expected);
    let text = refusal(lookup_rate::TOOL, json!("{ year: 2025")).await;
    assert!(text.contains("the arguments are invalid JSON, and must be a JSON object"), "{text}");
}

/// Tells the time.
#[tool(name = "time-now", description = "The time.", needs_approval)]
async fn time() -> &'static str {
    "noon"
}

#[tokio::test]
async fn tool_without_arguments_can_be_renamed() {
    let received = spec(&time::TOOL);
    assert_eq!((received.name.as_str(), received.description.as_str()), ("time-now", "The time."));
    assert_eq!(<time as NamedTool>::NAME, "time-now");
    assert!(Tool::<Filing, Desk>::needs_approval(&time::TOOL));
    assert!(!Tool::<Filing, Desk>::needs_approval(&lookup_rate::TOOL));
    assert_eq!(answer(time::TOOL, Value::Null).await, "noon");
    assert!(refusal(time::TOOL, json!({ "zone": 1 })).await.ends_with("there is no argument `zone`"));
    assert_eq!(time().await, "noon", "the function is still there");
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Claim {
    /// In dollars.
    amount: f64,
    #[serde(default)]
    notes: Vec<String>,
    inner: Option<Box<Claim>>,
}

/// Files a claim.
#[tool]
async fn claim(#[args] claim: Claim) -> Json<Claim> {
    Json(claim)
}

#[tokio::test]
async fn struct_can_be_all_arguments() {
    let parameters = spec(&claim::TOOL).parameters;
    assert_eq!(parameters["type"], "object");
    assert_eq!(parameters["required"], json!(["amount"]));
    assert_eq!(parameters["properties"]["amount"]["description"], "In dollars.");
    assert_eq!(parameters["additionalProperties"], false);
    let args = json!({ "amount": 1.5, "notes": ["für"], "inner": { "amount": 2.0 } });
    let received = answer(claim::TOOL, args).await;
    assert_eq!(received, r#"{"amount":1.5,"notes":["für"],"inner":{"amount":2.0,"notes":[],"inner":null}}"#);
    let wrong = refusal(claim::TOOL, json!({ "amount": 1, "inner": { "amount": "2" }, "note": [] })).await;
    assert!(wrong.contains("there is no argument `note`; did you mean `notes`?"), "{wrong}");
    assert!(wrong.contains("`inner.amount`: invalid type: string \"2\", expected f64"), "{wrong}");
    assert!(refusal(claim::TOOL, Value::Null).await.ends_with("- `amount` is missing"));
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
enum Payment {
    Card { number: String },
    Cash { amount: u32 },
}

/// Pays.
#[tool]
async fn pay(#[args] payment: Payment) -> Json<Payment> {
    Json(payment)
}

#[tokio::test]
async fn enum_can_be_all_arguments() {
    // Providers refuse `oneOf` at the top: it is one argument.
    let parameters = spec(&pay::TOOL).parameters;
    assert_eq!((&parameters["type"], parameters.get("oneOf")), (&json!("object"), None));
    assert_eq!((&parameters["required"], &parameters["additionalProperties"]), (&json!(["value"]), &json!(false)));
    assert_eq!(parameters["properties"]["value"]["oneOf"].as_array().map(Vec::len), Some(2));
    let given = |value: Value| json!({ "value": value });
    let received = answer(pay::TOOL, given(json!({ "by": "cash", "amount": 3 }))).await;
    assert_eq!(received, r#"{"by":"cash","amount":3}"#);
    assert!(refusal(pay::TOOL, given(json!({ "by": "cash" }))).await.contains("amount"));
    assert!(refusal(pay::TOOL, given(json!({ "by": "shell" }))).await.contains("`value"));
    assert!(refusal(pay::TOOL, json!({})).await.contains("`value` is missing"));
    // A struct with such a field is what it is.
    assert_eq!(answer(boxed::TOOL, given(json!({ "by": "cash", "amount": 3 }))).await, "Cash { amount: 3 }");
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Boxed {
    value: Payment,
}

/// Reads a box.
#[tool]
async fn boxed(#[args] boxed: Boxed) -> String {
    format!("{:?}", boxed.value)
}

/// Takes a note.
#[tool]
async fn note(text: String, call: &ToolCall) -> Command<Part> {
    Command::update(Part::update().messages(Message::tool(call, text)))
}

/// Parses a number.
#[tool]
async fn parse(text: String) -> Result<i64> {
    Ok(text.parse::<i64>()?)
}

/// Writes two messages.
#[tool]
async fn both(call: &ToolCall) -> Result<Vec<Message>, std::fmt::Error> {
    Ok(vec![Message::tool(call, "here"), Message::user("and here")])
}

#[tokio::test]
async fn results_can_be_text_messages_commands_or_errors() {
    let ToolOutput::Command(command) = call(note::TOOL, json!({ "text": "hi" })).await.unwrap() else { panic!() };
    let command = Mutex::new(command);
    let mut graph = GraphBuilder::<Filing>::new("applies");
    graph =
        graph.node("apply", move |_: Task<Filing>| std::future::ready(std::mem::take(&mut *command.lock().unwrap())));
    graph = graph.edge(START, "apply").edge("apply", END);
    let outcome = graph.compile().unwrap().invoke(Filing::default()).await.unwrap();
    let messages: Vec<_> =
        outcome.state().part.messages.iter().map(|message| (message.tool_call_id(), message.content())).collect();
    assert_eq!(messages, [(Some("c1"), Some(&Content::from("hi")))], "a command over a part became one over the whole");
    assert_eq!(answer(parse::TOOL, json!({ "text": "42" })).await, "42");
    let error = call(parse::TOOL, json!({ "text": "x" })).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid digit found in string");
    let output = call(both::TOOL, json!({})).await.unwrap();
    assert!(matches!(&output, ToolOutput::Messages(messages) if messages.len() == 2), "{output:?}");
}

static TRIES: AtomicUsize = AtomicUsize::new(0);

/// Fails twice.
#[tool(retry = 3)]
async fn shaky() -> Result<Content> {
    if TRIES.fetch_add(1, Ordering::Relaxed) < 2 { Err(NodeError::new("busy")) } else { Ok(Content::default()) }
}

static STUBBORN: AtomicUsize = AtomicUsize::new(0);

/// Always fails.
#[tool(retry = Retry { attempts: 5, interval: Duration::ZERO, ..Retry::default() })]
async fn stubborn() -> Result<String> {
    STUBBORN.fetch_add(1, Ordering::Relaxed);
    Err(NodeError::permanent("no"))
}

/// Takes a minute.
#[tool(timeout = 20ms)]
async fn slow() -> &'static str {
    std::future::pending::<()>().await;
    "never"
}

#[tokio::test(start_paused = true)]
async fn tool_is_retried_and_timed_out() {
    assert_eq!(answer(shaky::TOOL, json!({})).await, "");
    assert_eq!(TRIES.load(Ordering::Relaxed), 3);
    assert_eq!(call(stubborn::TOOL, json!({})).await.unwrap_err().to_string(), "no");
    assert_eq!(STUBBORN.load(Ordering::Relaxed), 1, "a permanent error is not tried again");
    assert_eq!(
        call(slow::TOOL, json!({})).await.unwrap_err().to_string(),
        "took longer than 20ms, the limit that `#[tool(timeout = …)]` sets"
    );
}
