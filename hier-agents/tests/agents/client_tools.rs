//! Tools that run in the client: their calls are typed questions, and the answers are their results.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{ClientResult, ToolStatus};
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_core::message::Body;
use hier_core::state::wants_tools;
use hier_core::{Interrupted, RunError};
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use crate::support::{Filing, FilingUpdate, call, calls, finish, prompt, report};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Picked {
    name: String,
    bytes: u64,
}

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(
    /// The kind of file.
    kind: String,
    #[default = 1] most: u32,
) -> Picked;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Place {
    precise: bool,
}

/// The place of the user.
#[tool(client, timeout = 1ms)]
async fn locate(#[args] place: Place) -> String;

/// Shows a text.
#[tool(client, name = "toast")]
async fn show(text: String);

/// Deletes a file of the user.
#[tool(client, needs_approval)]
async fn delete(name: String) -> bool;

static WEIGHED: AtomicUsize = AtomicUsize::new(0);

/// Weighs.
#[tool]
async fn weigh() -> String {
    WEIGHED.fetch_add(1, Ordering::Relaxed);
    "5 kg".to_owned()
}

graph! {
    Desk<MessagesState> = Agent {
        tools: [pick_file, show, weigh],
        asks: [PickFileCall, ShowCall],
    }
}

graph! { Map<MessagesState> = Agent { tools: [locate] } }

graph! { Cleaner<MessagesState> = Agent { tools: [delete] } }

graph! { Office<Filing> = ReactGraph { subagents: [Clerk { merge_fields: [findings] }], asks: [PickFileCall] } }

graph! { Clerk<Filing> = ReactGraph { tools: [pick_file] } }

graph! {
    Own<Filing, BaseContext> = Graph {
        nodes: [think, act = tools![pick_file]],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
        asks: [PickFileCall],
    }
}

async fn think(state: &Filing, run: &Run<BaseContext>) -> hier_core::Result<FilingUpdate> {
    let answer = run.model()?.ask(&state.base.messages).tools(tools![pick_file]).await?;
    Ok(Filing::update().messages(answer.message))
}

/// A thread of a chat with a scripted model.
struct Chat {
    graph: CompiledGraph<MessagesState, BaseContext>,
    model: ScriptedModel,
}

impl Chat {
    fn new(graph: CompiledGraph<MessagesState, BaseContext>, script: impl IntoIterator<Item = Message>) -> Self {
        Self { graph: graph.checkpointer(MemorySaver::new()), model: ScriptedModel::new(script) }
    }

    async fn send(&self, text: &str) -> Outcome<MessagesState> {
        let context = BaseContext::new(self.model.clone());
        self.graph.invoke(Message::user(text)).thread("t").context(context).await.unwrap()
    }

    async fn ask(&self, text: &str) -> Interrupted<MessagesState> {
        match self.send(text).await {
            Outcome::Interrupted(asked) => asked,
            other => panic!("no question: {other:?}"),
        }
    }

    async fn answer(&self, id: &str, answer: Value) -> Result<Outcome<MessagesState>, RunError> {
        let context = BaseContext::new(self.model.clone());
        self.graph.invoke(Command::answers([(id, answer)])).thread("t").context(context).await
    }
}

/// The results of calls in the conversation, each with its text and status.
fn results(out: &Outcome<MessagesState>) -> Vec<(String, ToolStatus)> {
    let messages = out.state().messages().iter();
    let results = messages.filter_map(|message| match &message.body {
        Body::Tool { content, status, .. } => Some((content.text(), *status)),
        _ => None,
    });
    results.collect()
}

fn bye() -> Message {
    Message::assistant("Bye.")
}

#[tokio::test]
async fn call_is_a_typed_question_and_its_answer_the_result() {
    let chat = Chat::new(Desk::compile(), [call("pick_file", json!({"kind": "png"})), bye()]);
    let asked = chat.ask("Look.").await;
    let question = &asked.questions[0];
    let sent = &chat.model.requests()[0].tools[0];
    assert_eq!((&*sent.name, &sent.parameters["required"]), ("pick_file", &json!(["kind"])));
    assert_eq!((question.name.as_deref(), &question.value["type"]), (Some("pick_file"), &json!("tool")));
    let call = &question.value["toolCall"];
    assert_eq!((&call["name"], &call["args"]), (&json!("pick_file"), &json!({"kind": "png"})));
    let open = asked.questions::<DeskQuestion>().unwrap();
    let [DeskQuestion::PickFileCall(pick)] = &*open else { panic!("{asked:?}") };
    assert_eq!((&*pick.args().kind, pick.args().most), ("png", 1), "defaults are part of the typed arguments");
    assert_eq!(json!(pick.call().id), call["id"]);

    let answer = pick.answer(Picked { name: "a.png".to_owned(), bytes: 7 }.into());
    let context = BaseContext::new(chat.model.clone());
    let out = chat.graph.invoke(answer).thread("t").context(context).await.unwrap();
    assert_eq!(out.text(), "Bye.");
    assert_eq!(results(&out), [(r#"{"name":"a.png","bytes":7}"#.to_owned(), ToolStatus::Success)]);
}

#[tokio::test]
async fn server_tool_of_the_same_answer_runs_once() {
    let both = calls([("pick_file", json!({"kind": "png"})), ("weigh", json!({})), ("toast", json!({"text": "Hi"}))]);
    let chat = Chat::new(Desk::compile(), [both, bye()]);
    let asked = chat.ask("Look.").await;
    assert_eq!((asked.questions.len(), WEIGHED.load(Ordering::Relaxed)), (2, 1));
    let id = |name: &str| {
        let question = asked.questions.iter().find(|question| question.name.as_deref() == Some(name));
        question.unwrap().id.clone()
    };
    let half = chat.answer(&id("toast"), json!("anything")).await.unwrap();
    assert!(matches!(&half, Outcome::Interrupted(left) if left.questions.len() == 1), "{half:?}");
    let out = chat.answer(&id("pick_file"), json!({"name": "a", "bytes": 1})).await.unwrap();
    assert_eq!(WEIGHED.load(Ordering::Relaxed), 1);
    let texts: Vec<String> = results(&out).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, [r#"{"name":"a","bytes":1}"#, "5 kg", "Done."]);
}

#[tokio::test]
async fn model_receives_the_failure_that_a_client_reports() {
    for answer in [json!({"error": "the user closed the dialog"}), json!(r#"{"error": "the user closed the dialog"}"#)]
    {
        let chat = Chat::new(Desk::compile(), [call("pick_file", json!({"kind": "png"})), bye()]);
        let id = chat.ask("Look.").await.questions[0].id.clone();
        let out = chat.answer(&id, answer).await.unwrap();
        assert_eq!(results(&out), [("Error: the user closed the dialog".to_owned(), ToolStatus::Error)]);
    }
}

#[test]
fn answers_are_read_by_the_type_of_the_result() {
    let done = |bytes| ClientResult::Done(Picked { name: "a".to_owned(), bytes });
    let read = |answer: Value| serde_json::from_value::<ClientResult<Picked>>(answer);
    assert_eq!(read(json!({"name": "a", "bytes": 1})).unwrap(), done(1));
    assert_eq!(read(json!(r#"{"name": "a", "bytes": 2}"#)).unwrap(), done(2));
    assert!(read(json!({"name": "a"})).unwrap_err().to_string().contains("bytes"));
    assert!(read(json!({"error": 5})).is_err() && read(json!({"error": "no", "bytes": 1})).is_err());
    let text = serde_json::from_value::<ClientResult<String>>(json!("[1]"));
    assert_eq!(text.unwrap(), ClientResult::Done("[1]".to_owned()), "a text stays a text");
    let failed = ClientResult::<Picked>::Failed("no".to_owned());
    assert_eq!(serde_json::to_value(&failed).unwrap(), json!({"error": "no"}));
    assert_eq!(serde_json::to_value(done(3)).unwrap(), json!({"name": "a", "bytes": 3}));
}

#[tokio::test]
async fn refused_answers_leave_the_question_open_and_each_call_has_one_result() {
    let chat = Chat::new(Desk::compile(), [call("pick_file", json!({"kind": "png"})), bye()]);
    let id = chat.ask("Look.").await.questions[0].id.clone();
    let wrong = chat.answer(&id, json!({"name": "a"})).await.unwrap_err().to_string();
    assert!(wrong.contains("bytes"), "{wrong}");
    let unknown = chat.answer(&"0".repeat(32), json!({"name": "a", "bytes": 1})).await;
    assert!(unknown.is_err(), "{unknown:?}");
    let picked = json!({"name": "a", "bytes": 1});
    assert!(chat.answer(&id, picked.clone()).await.unwrap().is_finished());
    let twice = chat.answer(&id, picked).await;
    assert!(twice.is_err(), "{twice:?}");
    assert_eq!((chat.model.requests().len(), chat.model.remaining()), (2, Some(0)));
}

#[tokio::test]
async fn invalid_arguments_go_back_to_the_model() {
    let chat = Chat::new(Desk::compile(), [call("pick_file", json!({"sort": "png"})), bye()]);
    let out = chat.send("Look.").await;
    let results = results(&out);
    let [(text, ToolStatus::Error)] = &*results else { panic!("{out:?}") };
    assert!(text.contains("`kind` is missing") && text.contains("no argument `sort`"), "{text}");
}

#[tokio::test]
async fn model_receives_an_error_if_the_client_is_late() {
    let chat = Chat::new(Map::compile(), [call("locate", json!({"precise": true})), bye()]);
    let asked = chat.ask("Where am I?").await;
    assert!(asked.questions[0].due.is_some());
    tokio::time::sleep(Duration::from_millis(20)).await;
    let context = BaseContext::new(chat.model.clone());
    let out = chat.graph.invoke(()).thread("t").context(context).await.unwrap();
    assert_eq!(results(&out), [("Error: the client did not answer within 1ms".to_owned(), ToolStatus::Error)]);
    let late = chat.answer(&asked.questions[0].id, json!("Rome")).await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test]
async fn new_input_withdraws_the_call() {
    let chat = Chat::new(Desk::compile(), [call("pick_file", json!({"kind": "png"})), bye()]);
    let asked = chat.ask("Look.").await;
    let out = chat.send("Never mind.").await;
    let results = results(&out);
    let [(text, ToolStatus::Error)] = &*results else { panic!("{out:?}") };
    assert!(text.contains("before the client answered"), "{text}");
    let late = chat.answer(&asked.questions[0].id, json!({"name": "a", "bytes": 1})).await;
    assert!(late.is_err(), "{late:?}");
}

#[tokio::test]
async fn approval_precedes_the_call() {
    let chat = Chat::new(Cleaner::compile(), [call("delete", json!({"name": "a"})), bye()]);
    let asked = chat.ask("Clean up.").await;
    assert_eq!(asked.questions[0].name.as_deref(), Some("tool_approval"));
    let approve = serde_json::to_value(Approval::Approve).unwrap();
    let asked = match chat.answer(&asked.questions[0].id, approve).await.unwrap() {
        Outcome::Interrupted(asked) => asked,
        other => panic!("{other:?}"),
    };
    assert_eq!(asked.questions[0].name.as_deref(), Some("delete"));
    let out = chat.answer(&asked.questions[0].id, json!(true)).await.unwrap();
    assert_eq!(results(&out), [("true".to_owned(), ToolStatus::Success)]);
}

#[tokio::test]
async fn subagents_ask_the_client() {
    let model = ScriptedModel::new([
        call("clerk", json!({"task": "pick"})),
        call("pick_file", json!({"kind": "png"})),
        report("picked"),
        finish("done"),
    ]);
    let office = Office::compile_as_root().checkpointer(MemorySaver::new());
    let context = || BaseContext::new(model.clone());
    let asked = office.invoke(Filing::update()).thread("t").context(context()).await.unwrap();
    let open = asked.questions::<OfficeQuestion>().unwrap();
    let [OfficeQuestion::PickFileCall(pick)] = &*open else { panic!("{asked:?}") };
    assert_eq!(pick.path(), ["clerk", "tool"]);
    let answer = pick.answer(Picked { name: "a".to_owned(), bytes: 1 }.into());
    let out = office.invoke(answer).thread("t").context(context()).await.unwrap();
    assert_eq!(out.state().base.current_agent_report, "done");
    assert!(prompt(&model, 2).contains(&r#"{"name":"a","bytes":1}"#.to_owned()), "{:?}", prompt(&model, 2));
}

#[tokio::test]
async fn tools_of_a_node_ask_the_client() {
    let model = ScriptedModel::new([call("pick_file", json!({"kind": "png"})), bye()]);
    let own = Own::compile().checkpointer(MemorySaver::new());
    let (context, start) = (|| BaseContext::new(model.clone()), Filing::update().messages(Message::user("Look.")));
    let asked = own.invoke(start).thread("t").context(context()).await.unwrap();
    let open = asked.questions::<OwnQuestion>().unwrap();
    let [OwnQuestion::PickFileCall(pick)] = &*open else { panic!("{asked:?}") };
    let failed = pick.answer(ClientResult::Failed("no file".to_owned()));
    let out = own.invoke(failed).thread("t").context(context()).await.unwrap();
    assert!(out.is_finished(), "{out:?}");
    assert!(prompt(&model, 1).contains(&"Error: no file".to_owned()), "{:?}", prompt(&model, 1));
}

#[test]
fn schemas_have_the_arguments_and_the_result() {
    let desk = Desk::compile().erase(|_| Ok(BaseContext::default()));
    let schemas = hier_core::graph::DynGraph::schemas(&desk);
    let pick = &schemas.questions["pick_file"];
    let call = &pick.question["properties"]["toolCall"]["properties"];
    assert_eq!(pick.question["properties"]["type"]["const"], "tool", "{}", pick.question);
    assert_eq!((&call["name"]["const"], &call["args"]["required"]), (&json!("pick_file"), &json!(["kind"])));
    let answers = pick.answer["anyOf"].as_array().unwrap();
    assert_eq!((answers.len(), &answers[1]["required"]), (2, &json!(["error"])), "{}", pick.answer);
}
