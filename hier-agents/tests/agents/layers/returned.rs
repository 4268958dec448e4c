//! Secrets that other layers and subagents add are neither shown nor stored.

use hier_agents::layer::{Emails, Guard, Inherited, Redact, Verdict};
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Approval, ApprovalRequest};
use hier_core::checkpoint::MemorySaver;
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::json;

use super::{Moody, Try, heard};
use crate::support::{Filing, FilingUpdate, call};

/// Pays.
#[tool(needs_approval)]
async fn pay(to: String) -> String {
    format!("paid {} letters", to.len())
}

#[tokio::test]
async fn question_does_not_show_the_secret_of_a_layer() {
    let fills = Guard::new(|_: &ToolCall, _: &BaseState| Verdict::Revise(json!({ "to": "eva@example.org" })));
    let desk = AgentBuilder::<BaseState>::new("desk").tool(pay::TOOL).layer(fills).layer(Redact::new(Emails));
    let script = || [call("pay", json!({ "to": "Eva" })), Message::assistant("Paid.")];
    let model = ScriptedModel::new(script().into_iter().chain(script()));
    let desk = desk.compile().unwrap().checkpointer(MemorySaver::new()).with_context(BaseContext::new(model));
    // An operator may send the arguments back unchanged.
    let unchanged = Approval::Edit { args: json!({ "to": "[redacted]" }) };
    for (thread, answer) in [("a", Approval::Approve), ("b", unchanged)] {
        let out = desk.invoke(Message::user("Pay.")).thread(thread).await.unwrap();
        let Outcome::Interrupted(asked) = out else { panic!("{out:?}") };
        let request: ApprovalRequest = asked.questions[0].parse().unwrap();
        assert_eq!(request.call.args, json!({ "to": "[redacted]" }));
        let out = desk.invoke(Command::resume(answer)).thread(thread).await.unwrap();
        let results: Vec<_> = out.state().messages.iter().filter(|message| message.tool_call_id().is_some()).collect();
        assert_eq!(results[0].text(), "paid 15 letters", "the tool receives the address");
    }
}

graph! {
    /// Leads.
    Lead<Filing> = Agent {
        subagents: [Clerk {}, Runner { background: true }],
        layers: [Inherited(Redact(Emails))],
    }
}

graph! {
    /// Leads, and ends at its limit.
    Short<Filing> = ReactGraph { subagents: [Clerk {}], layers: [Inherited(Redact(Emails))], max_iterations: 2 }
}

graph! {
    /// Finds an address without a model.
    Clerk<Filing> = SimpleGraph { compute: find }
}

graph! {
    /// Finds an address in the background.
    Runner<Filing> = SimpleGraph { compute: find }
}

async fn find() -> FilingUpdate {
    Filing::update().current_agent_report("Write to eva@example.org.".to_owned())
}

/// Everything that a run streams and returns, as text.
async fn shown(lead: &hier_core::graph::CompiledGraph<Filing, BaseContext>, script: Vec<Message>) -> String {
    let model = ScriptedModel::new(script);
    let input = Filing::update().messages(Message::user("?"));
    let lead = lead.clone().checkpointer(MemorySaver::new());
    let events = lead.stream(input).thread("t").context(BaseContext::new(model.clone()));
    let mut events = events.modes([StreamMode::Updates, StreamMode::Values]);
    let mut shown = Vec::new();
    while let Some(event) = events.next().await {
        shown.push(format!("{:?}", event.unwrap()));
    }
    let out = events.outcome().await.unwrap();
    shown.join("\n") + &serde_json::to_string(out.state()).unwrap() + &serde_json::to_string(&model.requests()).unwrap()
}

#[tokio::test]
async fn reports_of_subagents_are_redacted() {
    let task = || json!({ "task": "find" });
    let waits = call("wait_for_subagents", json!({}));
    let scripts = [
        vec![call("clerk", task()), Message::assistant("Done.")],
        vec![call("runner", task()), waits, Message::assistant("Done.")],
    ];
    for script in scripts {
        let shown = shown(&Lead::compile(), script).await;
        assert!(shown.contains("Write to [redacted]."), "{shown}");
        assert!(!shown.contains("example.org"), "{shown}");
    }
    let script = (0..9).map(|_| call("clerk", task())).collect();
    let shown = shown(&Short::compile_as_root(), script).await;
    assert!(!shown.contains("example.org"), "{shown}");
}

/// The second secret begins within the first one, and ends after it.
#[tokio::test]
async fn overlapping_secrets_of_two_layers_are_held_back_together() {
    let desk = AgentBuilder::<BaseState>::new("desk").layer(Redact::texts(["key=abcd"]));
    let desk = desk.layer(Redact::texts(["cd-secret"])).compile().unwrap();
    let said = "It is key=abcd-secret, so keep it.";
    let letters: Vec<&'static str> = said.split_inclusive(|_: char| true).collect();
    for pieces in [letters, vec!["It is key=abcd-", "secret, so keep it."]] {
        let model = Moody::new("m", [Try::Says(pieces)]);
        let (received, _) = heard(&desk, Message::user("?"), BaseContext::new(model)).await;
        assert_eq!(received.text(), "It is [redacted], so keep it.");
        assert_eq!(received.ends[0].text(), received.text());
    }
}
