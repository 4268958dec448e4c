//! Answers that lead nowhere end an agent: withheld, cut off, the same call again and again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use hier_agents::prelude::*;
use hier_agents::{
    AgentBuilder, AgentEnd, AgentLimit, Approval, ApprovalRequest, Budget, ChatModel, ChatRequest, ChatResponse,
    FinishReason, ModelError, Subagent, SubagentPolicy, Usage,
};
use hier_core::async_trait;
use hier_core::checkpoint::MemorySaver;
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use crate::support::{Filing, call, calls, finish, prompt};

/// A model with a script of answers, each with its reason to end.
struct Ending(Mutex<std::vec::IntoIter<ChatResponse>>, AtomicU32);

impl Ending {
    fn new(answers: Vec<ChatResponse>) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self(Mutex::new(answers.into_iter()), AtomicU32::new(0)))
    }

    fn call_count(&self) -> u32 {
        self.1.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ChatModel for Ending {
    fn name(&self) -> &'static str {
        "ending"
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let next = self.0.lock().unwrap().next();
        next.ok_or(ModelError::ScriptExhausted { model: "ending".to_owned(), asked: 0 })
    }
}

fn cut(message: Message) -> ChatResponse {
    ChatResponse::new(message.with_usage(Usage::new(10, 90))).with_finish(FinishReason::Length)
}

fn filtered(message: Message) -> ChatResponse {
    ChatResponse::new(message).with_finish(FinishReason::ContentFilter)
}

fn limit(limit: AgentLimit) -> AgentEnd {
    AgentEnd::Limit(limit)
}

/// Looks an order up.
#[tool]
async fn look(order: u32) -> String {
    format!("order {order} is lost")
}

graph! {
    Chat<Filing> = Agent { tools: [look] }
}

graph! {
    Desk<Filing> = ReactGraph { tools: [look], max_repeats: 3 }
}

fn order(number: u32) -> Message {
    call("look", json!({ "order": number }))
}

fn texts(state: &Filing) -> Vec<String> {
    state.base.messages.iter().map(Message::text).collect()
}

#[tokio::test]
async fn filtered_answer_is_not_part_of_the_conversation() {
    let chat = Chat::compile().checkpointer(MemorySaver::new());
    let partial = [Message::assistant("I was about"), order(1), Message::assistant("")];
    for withheld in partial {
        let config = Config::new().thread(format!("{withheld:?}"));
        let model = Ending::new(vec![filtered(withheld), ChatResponse::new(Message::assistant("Hello."))]);
        let context = || BaseContext::new(model.clone());
        let out = chat.invoke(Message::user("one")).config(config.clone()).context(context()).await.unwrap();
        assert_eq!(out.ending().cloned(), Some(limit(AgentLimit::Filtered)));
        assert_eq!((texts(out.state()), out.state().base.is_finished), (vec!["one".to_owned()], false));
        let out = chat.invoke(Message::user("two")).config(config).context(context()).await.unwrap();
        assert_eq!(
            (out.ending(), texts(out.state())),
            (Some(&AgentEnd::Text), vec!["one".into(), "two".into(), "Hello.".into()])
        );
    }
    let model = Ending::new(vec![filtered(Message::assistant("I was about"))]);
    let out = Desk::compile_as_root().invoke(Filing::update()).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending().cloned(), model.call_count()), (Some(limit(AgentLimit::Filtered)), 1));
    assert!(!texts(out.state()).contains(&"I was about".to_owned()));
}

#[tokio::test]
async fn reasoning_that_uses_all_tokens_ends_at_the_limit() {
    for (compiled, root) in [(Chat::compile(), "chat"), (Desk::compile_as_root(), "desk")] {
        let model = Ending::new(vec![cut(Message::assistant(""))]);
        let budget = std::sync::Arc::new(Budget::new());
        let context = BaseContext { budget: Some(budget.clone()), ..BaseContext::new(model.clone()) };
        let input = Filing::update().messages(Message::user("?"));
        let out = compiled.invoke(input).context(context).await.unwrap();
        assert_eq!((out.ending().cloned(), model.call_count()), (Some(limit(AgentLimit::Length)), 1), "{root}");
        assert_eq!((budget.spent().tokens, budget.spent().model_calls), (100, 1), "{root}");
    }
}

#[tokio::test]
async fn truncated_call_is_retried_at_most_twice() {
    let fragment = || Message::calls("", [ToolCall::new("look", Value::from("{\"order\": 1"))]);
    for (compiled, root) in [(Chat::compile(), "chat"), (Desk::compile_as_root(), "desk")] {
        let run = async |answers: Vec<ChatResponse>| {
            let model = Ending::new(answers);
            let input = Filing::update().messages(Message::user("?"));
            let out = compiled.invoke(input).context(BaseContext::new(model.clone())).await.unwrap();
            (out.ending().cloned(), model.call_count(), texts(out.state()))
        };
        let (end, asked, said) = run((0..9).map(|_| cut(fragment())).collect()).await;
        assert_eq!((end, asked), (Some(limit(AgentLimit::Length)), 3), "{root}");
        assert!(said.last().unwrap().starts_with("Error: not called: the answer was cut off"), "{said:?}");
        // An answer in between that is not cut off begins the count anew.
        let whole = || ChatResponse::new(order(7));
        let done = if root == "chat" { Message::assistant("Done.") } else { finish("Done.") };
        let answers =
            vec![cut(fragment()), cut(fragment()), whole(), cut(fragment()), cut(fragment()), ChatResponse::new(done)];
        let (end, asked, _) = run(answers).await;
        assert!(end.is_some_and(|end| end.is_success()), "{root}");
        assert_eq!(asked, 6, "{root}");
    }
}

/// A complete call of a reply that was cut off is not made, whatever the model.
#[tokio::test]
async fn complete_call_of_a_truncated_reply_is_not_made() {
    for (compiled, root) in [(Chat::compile(), "chat"), (Desk::compile_as_root(), "desk")] {
        let done = if root == "chat" { Message::assistant("Done.") } else { finish("Done.") };
        for (answers, asked) in
            [(vec![cut(order(1)), ChatResponse::new(done)], 2), ((0..9).map(|number| cut(order(number))).collect(), 3)]
        {
            let model = Ending::new(answers);
            let input = Filing::update().messages(Message::user("?"));
            let out = compiled.invoke(input).context(BaseContext::new(model.clone())).await.unwrap();
            assert_eq!(model.call_count(), asked, "{root}");
            assert_eq!(out.ending() == Some(&limit(AgentLimit::Length)), asked == 3, "{root}: {:?}", out.ending());
            let said = texts(out.state());
            assert!(!said.iter().any(|text| text.contains("is lost")), "{root}: {said:?}");
            assert!(said.iter().any(|text| text.contains("If your answer was cut off")), "{root}: {said:?}");
        }
    }
}

/// A call that stops all work needs its reason.
#[tokio::test]
async fn raise_of_a_truncated_reply_is_refused() {
    let raise = call("raise_exception", json!({ "reason": "no data" }));
    let model = Ending::new(vec![cut(raise.clone()), ChatResponse::new(finish("Done."))]);
    let run = Desk::compile_as_root().invoke(Filing::update().messages(Message::user("?")));
    let out = run.context(BaseContext::new(model)).await.expect("the agent tries again");
    assert!(texts(out.state()).iter().any(|text| text.contains("`reason` must be")), "{:?}", out.state());
    let model = Ending::new(vec![ChatResponse::new(raise)]);
    let run = Desk::compile_as_root().invoke(Filing::update().messages(Message::user("?")));
    let error = run.context(BaseContext::new(model)).await.expect_err("a complete reply stops all work");
    assert!(error.to_string().contains("no data"), "{error}");
}

graph! {
    Lead<Filing> = Agent { subagents: [Chat { background: true }] }
}

/// The reply may have lost its list of handles. Without this list, the call would wait for all subagents.
#[tokio::test]
async fn wait_of_a_truncated_reply_is_refused() {
    let wait = call("wait_for_subagents", json!({ "seconds": 5 }));
    let model = Ending::new(vec![cut(wait), ChatResponse::new(Message::assistant("Done."))]);
    let lead = Lead::compile().checkpointer(MemorySaver::new());
    let out = lead.invoke(Message::user("?")).thread("t").context(BaseContext::new(model)).await.unwrap();
    let said = texts(out.state());
    assert!(said.iter().any(|text| text.contains("the arguments must be a JSON object")), "{said:?}");
}

#[tokio::test]
async fn repeated_calls_with_equal_results_are_stopped() {
    let model = ScriptedModel::reacting(|_| order(1));
    let out = Chat::compile().invoke(Message::user("?")).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending().cloned(), model.call_count()), (Some(limit(AgentLimit::Repeats(3))), 5));
    let said = texts(out.state());
    assert_eq!(said.iter().filter(|text| *text == "order 1 is lost").count(), 3);
    let received = "Error: not called: it had the same result 3 times in a row. Do something else, or answer with what you have. If you \
                repeat it again, your work ends.";
    assert_eq!(said.iter().filter(|text| *text == received).count(), 2, "{said:?}");
    // The conversation can go on.
    assert!(out.state().base.messages.last().unwrap().tool_call_id().is_some());

    let model = ScriptedModel::reacting(|_| order(1));
    let out = Desk::compile_as_root().invoke(Filing::update()).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending().cloned(), model.call_count()), (Some(limit(AgentLimit::Repeats(3))), 5));
    assert!(out.state().base.current_agent_report.contains("it repeated a call"), "{:?}", out.state().base);
}

#[tokio::test]
async fn model_continues_after_heeding_the_warning() {
    let same = || order(1);
    let both = calls([("look", json!({"order": 1})), ("look", json!({"order": 2}))]);
    let model = ScriptedModel::new([same(), same(), same(), both, same(), same(), Message::assistant("It is lost.")]);
    let out = Chat::compile().invoke(Message::user("?")).context(BaseContext::new(model.clone())).await.unwrap();
    // The fourth answer's new call is made, and its old one refused. The fifth answer alone would end the agent.
    assert_eq!((out.ending().cloned(), model.call_count()), (Some(limit(AgentLimit::Repeats(3))), 5));
    assert!(texts(out.state()).contains(&"order 2 is lost".to_owned()));
    let model =
        ScriptedModel::new([same(), same(), same(), same(), order(2), same(), Message::assistant("It is lost.")]);
    let out = Chat::compile().invoke(Message::user("?")).context(BaseContext::new(model.clone())).await.unwrap();
    assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Text), 7));
    // Another turn begins anew.
    let chat = Chat::compile().checkpointer(MemorySaver::new());
    for _ in 0..3 {
        let model = ScriptedModel::new([same(), same(), Message::assistant("It is lost.")]);
        let out = chat.invoke(Message::user("?")).thread("t").context(BaseContext::new(model.clone())).await.unwrap();
        assert_eq!((out.ending(), model.call_count()), (Some(&AgentEnd::Text), 3));
    }
}

#[test]
fn zero_max_repeats_is_refused() {
    let error = AgentBuilder::<BaseState>::new("chat").max_repeats(0).compile().unwrap_err();
    assert_eq!(error.mistakes, ["`max_repeats` is 0, so the agent could not call a tool: set it to at least 1"]);
}

/// Pays.
#[tool(needs_approval)]
async fn pay(eur: u32, urgent: bool, to: Vec<String>) -> String {
    format!("paid {eur} to {to:?}, urgent: {urgent}")
}

graph! {
    Till<Filing> = Agent { tools: [pay], subagents: [Clerk {}] }
}

/// The arguments of a clerk.
#[derive(Debug, Deserialize, JsonSchema)]
struct Page {
    number: u32,
}

graph! {
    Clerk<Filing> = SimpleGraph { compute: count, args: Page }
}

async fn count(state: &Filing) -> hier_core::Result<crate::support::FilingUpdate> {
    let Page { number } = state.base.args()?;
    Ok(Filing::update().current_agent_report(format!("page {number}")))
}

#[tokio::test]
async fn arguments_are_converted_before_layers_and_tools_run() {
    let model = ScriptedModel::new([
        call("pay", json!({"eur": "5", "urgent": "true", "to": "ann"})),
        call("clerk", json!({"number": 7.0})),
        Message::assistant("Paid."),
    ]);
    let till = Till::compile().checkpointer(MemorySaver::new());
    let context = || BaseContext::new(model.clone());
    let asked = till.invoke(Message::user("pay")).thread("t").context(context()).await.unwrap();
    let Outcome::Interrupted(asked) = asked else { panic!("{asked:?}") };
    let request: ApprovalRequest = asked.questions[0].parse().unwrap();
    assert_eq!(request.call.args, json!({"eur": 5, "urgent": true, "to": ["ann"]}));
    let out = till.invoke(Command::resume(Approval::Approve)).thread("t").context(context()).await.unwrap();
    assert_eq!(prompt(&model, 1).last().unwrap(), "paid 5 to [\"ann\"], urgent: true");
    assert_eq!(prompt(&model, 2).last().unwrap(), "page 7");
    // The model's text stays unchanged.
    assert_eq!(out.state().base.messages.get(1).unwrap().tool_calls()[0].args["eur"], "5");
}

#[tokio::test]
async fn all_argument_faults_are_reported_together() {
    let model = ScriptedModel::new([
        call("pay", json!({"eur": "five", "urgent": [], "to": [1], "too": 1})),
        Message::assistant("Never mind."),
    ]);
    let context = BaseContext::new(model.clone());
    let out = Till::compile().invoke(Message::user("pay")).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    let received = prompt(&model, 1).pop().unwrap();
    for wanted in [
        "there is no argument `too`; did you mean `to`?",
        "`eur`: invalid type",
        "`urgent`: invalid type",
        "`to[0]`: invalid type",
    ] {
        assert!(received.contains(wanted), "{wanted}: {received}");
    }
}

#[tokio::test]
async fn supervisor_receives_limits_of_subagents() {
    let clerk = Subagent::new(&Chat::compile()).policy(SubagentPolicy::new());
    let desk = AgentBuilder::<Filing>::new("desk").subagent(clerk).compile().unwrap();
    let model = Ending::new(vec![
        ChatResponse::new(call("chat", json!({"task": "x"}))),
        filtered(Message::assistant("I was")),
        ChatResponse::new(Message::assistant("Not to be done.")),
    ]);
    let out = desk.invoke(Message::user("?")).context(BaseContext::new(model)).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    assert!(
        texts(out.state()).contains(&"No answer: the agent ended early: the provider withheld its reply.".to_owned())
    );
}
