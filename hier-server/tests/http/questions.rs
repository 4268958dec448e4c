//! Declared questions over HTTP: their schemas, and answers of the wrong type.

use hier_agents::prelude::*;
use hier_server::Server;
use serde_json::{Value, json};

use crate::support::{Desk, open};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Ledger {
    amounts: Vec<u32>,
    #[reducer(append)]
    log: Vec<String>,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = Decision)]
struct Pay {
    amount: u32,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Pay,
    Refuse { reason: String },
}

async fn pay(Sent(amount): Sent<u32>, pay: Ask<Pay>) -> hier_core::Result<LedgerUpdate> {
    Ok(Ledger::update().log(format!("{amount}: {:?}", pay.ask(Pay { amount }).await?)))
}

graph! {
    Payments<Ledger> = Graph {
        nodes: [pay],
        edges: [START >> for amount in state.amounts { pay(amount) }, pay >> END],
        asks: [Pay],
    }
}

async fn payments() -> Desk {
    open(Server::new().graph("payments", Payments::compile(), ())).await
}

async fn run(desk: &Desk, thread: &str, body: Value) -> (u16, Value) {
    let mut body = body;
    body["assistant_id"] = json!("payments");
    desk.post(&format!("/threads/{thread}/runs/wait"), body).await
}

/// The values and ids of the thread's open questions.
async fn open_questions(desk: &Desk, thread: &str) -> Vec<(Value, String)> {
    let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
    let asked = state["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .flat_map(|task| task["interrupts"].as_array().expect("a list"));
    asked.map(|asked| (asked["value"].clone(), asked["id"].as_str().expect("an id").to_owned())).collect()
}

#[tokio::test]
async fn schemas_contain_the_questions_and_their_answers() {
    let desk = payments().await;
    let (_, found) = desk.post("/assistants/search", json!({ "graph_id": "payments" })).await;
    let assistant = found[0]["assistant_id"].as_str().expect("an assistant");
    let (status, schemas) = desk.get(&format!("/assistants/{assistant}/schemas")).await;
    assert_eq!(status, 200, "{schemas}");
    let pay = &schemas["question_schemas"]["pay"];
    assert_eq!(pay["question"]["properties"]["type"]["const"], "pay", "{schemas}");
    assert_eq!(pay["question"]["properties"]["amount"]["type"], "integer");
    assert_eq!(pay["answer"]["title"], "Decision");
    desk.stop().await;
}

#[tokio::test]
async fn wrong_answers_are_refused_before_the_run_and_the_question_stays_open() {
    let desk = payments().await;
    let thread = desk.thread().await;
    let (status, asked) = run(&desk, &thread, json!({ "input": { "amounts": [7] } })).await;
    assert_eq!((status, &asked["__interrupt__"][0]["value"]), (200, &json!({ "type": "pay", "amount": 7 })));
    let open = open_questions(&desk, &thread).await;
    let id = open[0].1.clone();
    let before = desk.get(&format!("/threads/{thread}")).await.1;
    for resume in
        [json!("maybe"), json!({ "refuse": {} }), json!(true), json!({ &*id: "maybe" }), json!({ &*id: null })]
    {
        let (status, error) = run(&desk, &thread, json!({ "command": { "resume": resume } })).await;
        assert_eq!(status, 422, "{resume}: {error}");
        let detail = error["detail"].as_str().expect("a reason");
        assert!(detail.contains("is not an answer to the question `pay`") && detail.contains(&id), "{detail}");
        assert_eq!(open_questions(&desk, &thread).await, open);
    }
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1, before, "what is refused has changed nothing");
    let (status, ended) =
        run(&desk, &thread, json!({ "command": { "resume": { &*id: { "refuse": { "reason": "late" } } } } })).await;
    assert_eq!((status, &ended["log"]), (200, &json!([r#"7: Refuse { reason: "late" }"#])));
    let (status, _) = run(&desk, &thread, json!({ "command": { "resume": { &*id: "pay" } } })).await;
    assert_eq!(status, 422, "it is answered");
    desk.stop().await;
}

#[tokio::test]
async fn one_wrong_answer_of_several_refuses_all() {
    let desk = payments().await;
    let thread = desk.thread().await;
    run(&desk, &thread, json!({ "input": { "amounts": [7, 8] } })).await;
    let open = open_questions(&desk, &thread).await;
    assert_eq!(open.len(), 2);
    let (first, second) = (&*open[0].1, &*open[1].1);
    let (status, error) = run(&desk, &thread, json!({ "command": { "resume": { first: "pay", second: 8 } } })).await;
    assert_eq!(status, 422, "{error}");
    assert_eq!(open_questions(&desk, &thread).await, open);
    let (status, ended) =
        run(&desk, &thread, json!({ "command": { "resume": { first: "pay", second: "pay" } } })).await;
    assert_eq!((status, ended["log"].as_array().map(Vec::len)), (200, Some(2)), "{ended}");
    desk.stop().await;
}
