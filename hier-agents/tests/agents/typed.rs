//! `answer: channel`: an agent that ends with a value of a type.

use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, AgentEnd, AgentFailed};
use hier_core::checkpoint::MemorySaver;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{call, calls, offered, prompt};

/// The decision about a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Verdict {
    /// True if it is paid.
    accepted: bool,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Part {
    eur: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mood {
    #[default]
    Calm,
    Angry,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Claim {
    #[state(flatten)]
    base: BaseState,
    verdict: Option<Verdict>,
    mood: Mood,
}

graph! {
    /// Decides about claims.
    Judge<Claim> = Agent { system: "You decide.", tools: [look], answer: verdict, max_iterations: 5 }
}

graph! {
    /// Reads moods.
    Reader<Claim> = Agent { answer: mood, attempts: 1 }
}

graph! {
    Head<Claim> = Agent { subagents: [Judge { merge_fields: [verdict] }, Reader { merge_fields: [mood] }] }
}

/// Looks.
#[tool]
async fn look() -> String {
    "seen".to_owned()
}

fn fits() -> serde_json::Value {
    json!({"accepted": true, "parts": [{"eur": 3}]})
}

async fn run(model: &ScriptedModel) -> Result<Outcome<Claim>, RunError> {
    Judge::compile().invoke(Message::user("Claim 17")).context(BaseContext::new(model.clone())).await
}

#[tokio::test]
async fn answer_tool_returns_the_typed_answer() {
    let model = ScriptedModel::new([call("look", json!({})), call("final_answer", fits())]);
    let out = run(&model).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Answer));
    let state = out.state();
    assert_eq!(state.verdict, Some(Verdict { accepted: true, parts: vec![Part { eur: 3 }] }));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&state.base.current_agent_report).unwrap(), fits());
    assert_eq!(state.base.messages.last().unwrap().text(), "The answer was accepted.");
    assert_eq!(offered(&model, 0), ["look", "final_answer"]);
    let schema = &model.requests()[0].tools[1].parameters;
    assert_eq!(schema["properties"]["accepted"]["description"], "True if it is paid.");
    assert_eq!(schema["required"], json!(["accepted", "parts"]));
    assert!(model.requests()[0].output.is_none());
}

#[tokio::test]
async fn mismatches_are_returned_with_paths_until_the_agent_fails() {
    let model = ScriptedModel::new([
        call("final_answer", json!({"accepted": true, "parts": [{"eur": 1}, {"eur": "two"}]})),
        call("final_answer", json!({"accepted": true, "part": []})),
        call("final_answer", fits()),
    ]);
    let out = run(&model).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Answer), 3));
    assert!(prompt(&model, 1).last().unwrap().contains("`parts[1].eur`: invalid type"), "{:?}", prompt(&model, 1));
    let second = prompt(&model, 2);
    let second = second.last().unwrap();
    assert!(
        second.contains("no argument `part`; did you mean `parts`?") && second.contains("`parts` is missing"),
        "{second}"
    );

    let model = ScriptedModel::reacting(|_| call("final_answer", json!({"accepted": "maybe", "parts": []})));
    let error = run(&model).await.unwrap_err();
    let failed = AgentFailed::find_in(&error).unwrap();
    assert_eq!((model.call_count(), &*failed.agent), (3, "judge"));
    assert!(failed.reason.contains("`accepted`: invalid type"), "{failed}");
    assert!(failed.text.contains("maybe"), "{failed}");
    assert!(error.to_string().contains("the model replied: {\"accepted\":\"maybe\""), "{error}");
}

#[tokio::test]
async fn fitting_text_is_the_answer_and_other_text_is_rejected() {
    let model = ScriptedModel::new([
        Message::assistant("I accept."),
        Message::assistant("```json\n{\"accepted\": false, \"parts\": []}\n```"),
    ]);
    let out = run(&model).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Answer));
    assert_eq!(out.state().verdict, Some(Verdict { accepted: false, parts: vec![] }));
    let sent = prompt(&model, 1);
    assert!(sent[2] == "I accept." && sent[3].starts_with("the answer is not valid JSON"), "{sent:?}");
    // Rejected answers are not part of the conversation.
    assert_eq!(out.state().base.messages.len(), 2);
}

#[tokio::test]
async fn native_output_model_receives_the_schema() {
    let model = ScriptedModel::new([call("look", json!({})), Message::assistant(fits().to_string())]).native_output();
    let out = run(&model).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Answer), 2));
    assert_eq!(offered(&model, 0), ["look"]);
    let output = model.requests()[0].output.clone().unwrap();
    assert_eq!((&*output.name, &output.schema["required"]), ("verdict", &json!(["accepted", "parts"])));
}

#[tokio::test]
async fn several_answers_and_answers_with_other_calls() {
    let other = json!({"accepted": false, "parts": []});
    let model = ScriptedModel::new([
        calls([("final_answer", fits()), ("look", json!({}))]),
        calls([("final_answer", fits()), ("final_answer", other)]),
        calls([("final_answer", json!({})), ("final_answer", fits()), ("final_answer", fits())]),
    ]);
    let out = run(&model).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Answer), 3));
    let first = prompt(&model, 1);
    assert!(
        first[3].starts_with("Error: not accepted: an answer must be the only call") && first[4] == "seen",
        "{first:?}"
    );
    let second = prompt(&model, 2);
    assert!(
        second[6].contains("several different answers") && second[7].contains("several different answers"),
        "{second:?}"
    );
    let open = out.state().base.messages.iter().flat_map(Message::tool_calls).count();
    let answered = out.state().base.messages.iter().filter(|message| message.tool_call_id().is_some()).count();
    assert_eq!(open, answered);
}

#[tokio::test]
async fn new_turn_clears_the_old_answer() {
    let model = ScriptedModel::new([call("final_answer", fits())]);
    let judge = Judge::compile().checkpointer(MemorySaver::new());
    let context = || BaseContext::new(model.clone());
    let out = judge.invoke(Message::user("Claim 17")).thread("t").context(context()).await.unwrap();
    assert!(out.state().verdict.is_some());
    for _ in 0..5 {
        model.push(call("look", json!({})));
    }
    let out = judge.invoke(Message::user("Claim 18")).thread("t").context(context()).await.unwrap();
    assert!(matches!(out.ending(), Some(AgentEnd::Limit(_))), "{:?}", out.ending());
    assert_eq!(out.state().verdict, None);
}

#[tokio::test]
async fn answers_of_subagents_are_reports_and_channels() {
    let model = ScriptedModel::new([
        call("judge", json!({"task": "decide"})),
        call("final_answer", fits()),
        call("reader", json!({"task": "read"})),
        call("final_answer", json!({"value": "angry"})),
        call("reader", json!({"task": "read"})),
        call("final_answer", json!({"value": "sad"})),
        Message::assistant("done"),
    ]);
    let context = BaseContext::new(model.clone());
    let out = Head::compile().invoke(Message::user("go")).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    assert!(out.state().verdict.as_ref().unwrap().accepted);
    assert_eq!(out.state().mood, Mood::Angry);
    let received = prompt(&model, 6);
    assert_eq!(received[4], "angry");
    assert!(
        received[6]
            .starts_with("the agent `reader` received no usable reply from its model: 1 reply could not be used"),
        "{received:?}"
    );
    assert!(received[6].contains("`value`: unknown variant `sad`"), "{received:?}");
}

#[tokio::test]
async fn rejected_answers_are_shown_at_their_positions() {
    let model = ScriptedModel::new([
        Message::assistant("I accept."),
        call("final_answer", json!({"accepted": true})),
        call("look", json!({})),
        Message::assistant("Really."),
        call("final_answer", fits()),
    ]);
    let judge = AgentBuilder::<Claim>::new("judge").tool(look::TOOL).answer(&Claim::channels().verdict).attempts(9);
    let context = BaseContext::new(model.clone());
    let out = judge.compile().unwrap().invoke(Message::user("Claim 17")).context(context).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Answer), 5));
    let second = prompt(&model, 2);
    assert_eq!((&*second[0], &*second[1], &*second[3]), ("Claim 17", "I accept.", ""));
    assert!(
        second[2].starts_with("the answer is not valid JSON") && second[4].contains("`parts` is missing"),
        "{second:?}"
    );
    let last = prompt(&model, 4);
    assert_eq!(last[..5], second[..5], "earlier messages keep their position");
    assert_eq!((&*last[5], &*last[6], &*last[7]), ("", "seen", "Really."));
    assert!(last[8].starts_with("the answer is not valid JSON"), "{last:?}");
    // Rejected texts are not part of the conversation.
    assert!(!out.state().base.messages.iter().any(|message| message.text() == "Really."));
}

#[tokio::test]
async fn all_faults_of_an_answer_are_reported_together() {
    let model = ScriptedModel::new([
        call("final_answer", json!({"accepted": "maybe", "parts": [{"eur": []}, {"eur": "2"}, {}]})),
        call("final_answer", json!({"accepted": "true", "parts": "[{\"eur\": \"2\"}]"})),
    ]);
    let out = run(&model).await.unwrap();
    let received = prompt(&model, 1).pop().unwrap();
    for wanted in [
        "`accepted`: invalid type",
        "`parts[0].eur`: it is a list, and must be an integer",
        "`parts[2].eur` is missing",
    ] {
        assert!(received.contains(wanted), "{wanted}: {received}");
    }
    assert_eq!(out.state().verdict, Some(Verdict { accepted: true, parts: vec![Part { eur: 2 }] }));
    // The report shows what was meant.
    assert_eq!(out.state().base.current_agent_report, json!({"accepted": true, "parts": [{"eur": 2}]}).to_string());
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Grade {
    #[schemars(range(min = 1, max = 6))]
    mark: u32,
    #[schemars(length(max = 5))]
    reason: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Exam {
    #[state(flatten)]
    base: BaseState,
    grade: Grade,
}

graph! {
    Examiner<Exam> = Agent { answer: grade }
}

/// A provider may ignore the bounds of a schema. The model is notified of the bounds that its answer breaks.
#[tokio::test]
async fn bounds_of_the_schema_are_checked() {
    let grade = |mark: u32, reason: &str| json!({"mark": mark, "reason": reason});
    let model = ScriptedModel::new([
        Message::assistant(grade(7, "perfect").to_string()),
        call("final_answer", grade(0, "bad")),
        Message::assistant(grade(1, "good").to_string()),
    ]);
    let context = BaseContext::new(model.clone());
    let out = Examiner::compile().invoke(Message::user("Grade it.")).context(context).await.unwrap();
    assert_eq!(out.state().grade, Grade { mark: 1, reason: "good".to_owned() });
    let received = model.requests()[2].messages.iter().map(Message::text).collect::<Vec<_>>().join("\n");
    for fault in
        ["`mark` is more than 6", "`reason` has 7 characters, but at most 5 are allowed", "`mark` is less than 1"]
    {
        assert!(received.contains(fault), "{received}");
    }
}
