//! Layers before and around calls of tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::layer::{CallSite, Emulate, Guard, Layer, NextTool, ToolReply, ToolUse, Verdict};
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Approval, ApprovalRequest};
use hier_core::checkpoint::MemorySaver;
use hier_core::message::ToolCall;
use hier_core::state::Values;
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::sync::Notify;

use super::Log;
use crate::support::{Filing, call};

static PAID: AtomicUsize = AtomicUsize::new(0);

/// Pays.
#[tool(needs_approval)]
async fn pay(amount: u32) -> Command<Filing> {
    PAID.fetch_add(1, Ordering::Relaxed);
    Command::update(Filing::update().findings([format!("paid {amount}")]).messages(Message::user("thank you")))
}

/// No more than 50 at once, and nothing at all from an empty draft.
fn bounded(call: &ToolCall, filing: &Filing) -> Verdict {
    match call.args["amount"].as_u64() {
        _ if filing.draft.is_empty() => Verdict::Deny("there is no draft".to_owned()),
        Some(amount) if amount > 50 => Verdict::Revise(json!({"amount": 50})),
        _ => Verdict::Allow,
    }
}

fn asked(draft: &str) -> FilingUpdate {
    Filing::update().draft(draft).messages(Message::user("pay"))
}

use crate::support::FilingUpdate;

fn model(amount: u32) -> ScriptedModel {
    ScriptedModel::new([call("pay", json!({ "amount": amount })), Message::assistant("done")])
}

#[tokio::test]
async fn denied_call_is_not_sent_for_approval() {
    let desk = AgentBuilder::<Filing>::new("desk").tool(pay::TOOL).layer(Guard::new(bounded)).compile().unwrap();
    let out = desk.invoke(asked("")).context(BaseContext::new(model(10))).await.unwrap();
    assert!(out.is_finished());
    assert_eq!(out.state().base.messages.get(2).unwrap().text(), "Error: there is no draft");
    assert!(out.state().findings.is_empty());
}

#[tokio::test]
async fn operator_approves_the_revised_call() {
    let desk = AgentBuilder::<Filing>::new("desk").tool(pay::TOOL).layer(Guard::new(bounded)).compile().unwrap();
    let desk = desk.checkpointer(MemorySaver::new());
    for (thread, answer, paid) in [
        ("approved", Approval::Approve, "paid 50"),
        ("edited", Approval::Edit { args: json!({"amount": 20}) }, "paid 20"),
        // The same rule applies to edits of a person.
        ("too much", Approval::Edit { args: json!({"amount": 70}) }, "paid 50"),
    ] {
        let context = || BaseContext::new(model(90));
        let out = desk.invoke(asked("d")).thread(thread).context(context()).await.unwrap();
        let Outcome::Interrupted(waiting) = out else { panic!("{out:?}") };
        let question: ApprovalRequest = waiting.questions[0].parse().unwrap();
        assert_eq!(question.call.args, json!({"amount": 50}));
        let rest = BaseContext::new(ScriptedModel::new([Message::assistant("done")]));
        let out = desk.invoke(Command::resume(answer)).thread(thread).context(rest).await.unwrap();
        assert_eq!(out.state().findings, [paid]);
        // The model's own call is not changed.
        assert_eq!(out.state().base.messages.get(1).unwrap().tool_calls()[0].args, json!({"amount": 90}));
    }
}

#[tokio::test]
async fn edited_arguments_can_be_denied() {
    let even = |call: &ToolCall, _: &Filing| match call.args["amount"].as_u64() {
        Some(amount) if amount % 2 == 0 => Verdict::Allow,
        _ => Verdict::Deny("only even amounts".to_owned()),
    };
    let desk = AgentBuilder::<Filing>::new("desk").tool(pay::TOOL).layer(Guard::new(even)).compile().unwrap();
    let desk = desk.checkpointer(MemorySaver::new());
    let context = BaseContext::new(model(90));
    assert!(!desk.invoke(asked("d")).thread("t").context(context).await.unwrap().is_finished());
    let rest = BaseContext::new(ScriptedModel::new([Message::assistant("done")]));
    let edit = Command::resume(Approval::Edit { args: json!({"amount": 7}) });
    let out = desk.invoke(edit).thread("t").context(rest).await.unwrap();
    assert!(out.is_finished(), "no approval is requested again");
    let received = out.state().base.messages.get(2).unwrap().text();
    assert_eq!(
        received,
        "Error: the operator changed the arguments to {\"amount\":7}, which were refused: only even amounts"
    );
    assert!(out.state().findings.is_empty());
}

/// Sends an amount.
#[tool(needs_approval)]
async fn send(amount: u32, token: String) -> String {
    format!("sent {amount} with {} characters", token.len())
}

/// A layer can add a secret to the arguments, which only the tool receives.
#[tokio::test]
async fn model_receives_the_edited_arguments_before_a_layer_revises_them() {
    let signed = |call: &ToolCall, _: &Filing| {
        let mut args = call.args.clone();
        args["token"] = json!("t0ps3cret");
        Verdict::Revise(args)
    };
    let desk = AgentBuilder::<Filing>::new("desk").tool(send::TOOL).layer(Guard::new(signed)).compile().unwrap();
    let desk = desk.checkpointer(MemorySaver::new());
    let model = ScriptedModel::new([call("send", json!({"amount": 9})), Message::assistant("done")]);
    let context = || BaseContext::new(model.clone());
    assert!(!desk.invoke(asked("d")).thread("t").context(context()).await.unwrap().is_finished());
    let edit = Command::resume(Approval::Edit { args: json!({"amount": 3}) });
    let out = desk.invoke(edit).thread("t").context(context()).await.unwrap();
    let received = out.state().base.messages.get(2).unwrap().text();
    assert_eq!(
        received,
        "[The operator changed the arguments of this call to {\"amount\":3}. The result:]\nsent 3 with 9 characters"
    );
}

#[tokio::test]
async fn revised_arguments_are_an_object() {
    let revise = |_: &ToolCall, _: &Filing| Verdict::Revise(json!("text"));
    let desk = AgentBuilder::<Filing>::new("desk").tool(pay::TOOL).layer(Guard::new(revise)).compile().unwrap();
    let error = desk.invoke(asked("d")).context(BaseContext::new(model(1))).await.unwrap_err();
    assert!(error.to_string().contains("desk/0:Guard") && error.to_string().contains("not a JSON object"), "{error}");
}

/// Adds a line to what tools say.
struct Signed;

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Signed {
    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>> {
        let mut reply = next.call(call).await?;
        reply.map_texts(|text| text.push_str(" (signed)"));
        Ok(reply)
    }
}

/// Other effects of a tool than its text stay unchanged.
#[tokio::test]
async fn layer_changes_results_including_those_of_commands() {
    let desk = AgentBuilder::<Filing>::new("desk").tool(pay::TOOL).layer(Signed).layer(Guard::new(bounded));
    let desk = desk.compile().unwrap().checkpointer(MemorySaver::new());
    let _ = desk.invoke(asked("d")).thread("t").context(BaseContext::new(model(1))).await.unwrap();
    let rest = BaseContext::new(ScriptedModel::new([Message::assistant("done")]));
    let out = desk.invoke(Command::resume(Approval::Approve)).thread("t").context(rest).await.unwrap();
    assert_eq!(out.state().findings, ["paid 1"]);
    let texts: Vec<String> = out.state().base.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["pay", "", "Done.", "thank you (signed)", "done"]);
}

#[tokio::test]
async fn emulated_tools_are_not_called() {
    let emulate = Emulate::new(|call| (call.name == "pay").then_some("nothing was paid"));
    let desk = AgentBuilder::<Filing>::new("desk").tool(pay::TOOL).layer(emulate);
    let desk = desk.compile().unwrap().checkpointer(MemorySaver::new());
    let _ = desk.invoke(asked("d")).thread("t").context(BaseContext::new(model(1))).await.unwrap();
    let rest = BaseContext::new(ScriptedModel::new([Message::assistant("done")]));
    let out = desk.invoke(Command::resume(Approval::Approve)).thread("t").context(rest).await.unwrap();
    assert_eq!(out.state().base.messages.get(2).unwrap().text(), "nothing was paid");
    assert!(out.state().findings.is_empty());
}

/// Notes what runs.
#[derive(Clone)]
struct Watched(Log);

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Watched {
    async fn check(&self, _: &ToolCall, _: CallSite<'_, S, C>) -> Result<Verdict> {
        self.0.note("check");
        Ok(Verdict::Allow)
    }

    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>> {
        self.0.note("call");
        let reply = next.call(call).await?;
        self.0.note("called");
        Ok(reply)
    }
}

struct Bank {
    base: BaseContext,
    begun: Arc<Notify>,
    is_slow: bool,
}

impl AsRef<BaseContext> for Bank {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Sends money, slowly.
#[tool(needs_approval)]
async fn transfer(run: &Run<Bank>) -> String {
    run.context().begun.notify_one();
    if run.context().is_slow {
        std::future::pending::<()>().await;
    }
    "sent".to_owned()
}

/// The process dies between the approval and the end of the call. The call is made again without another approval, and
/// layers do not repeat committed work.
#[tokio::test]
async fn interrupted_call_passes_its_layers_again() {
    let (log, saver, begun) = (Log::default(), MemorySaver::new(), Arc::new(Notify::new()));
    let desk = || {
        let desk = AgentBuilder::<BaseState, Bank>::new("desk").tool(transfer::TOOL).layer(Watched(log.clone()));
        desk.compile().unwrap().checkpointer(saver.clone())
    };
    let model = ScriptedModel::new([call("transfer", json!({})), Message::assistant("done")]);
    let bank = |is_slow| Bank { base: BaseContext::new(model.clone()), begun: begun.clone(), is_slow };
    let out = desk().invoke(Message::user("send")).thread("t").context(bank(true)).await.unwrap();
    assert!(!out.is_finished());
    assert_eq!(log.take(), ["check"]);
    let (slow, context) = (desk(), bank(true));
    let cut =
        tokio::spawn(async move { slow.invoke(Command::resume(Approval::Approve)).thread("t").context(context).await });
    begun.notified().await;
    cut.abort();
    assert!(cut.await.unwrap_err().is_cancelled());
    assert_eq!(log.take(), ["check", "call"]);
    let out = desk().invoke(()).thread("t").context(bank(false)).await.unwrap();
    assert!(out.is_finished());
    assert_eq!(log.take(), ["check", "call", "called"]);
    assert_eq!(model.call_count(), 2);
    // A new turn does not repeat finished work.
    model.push(Message::assistant("hello"));
    let _ = desk().invoke(Message::user("hello")).thread("t").context(bank(false)).await.unwrap();
    assert!(log.take().is_empty());
}
