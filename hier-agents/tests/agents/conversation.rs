//! `Agent`: ends when its model answers without a call.

use hier_agents::prelude::*;
use hier_agents::{AgentEnd, AgentFailed, AgentLimit, Body, ChatModel, Citation, Effort, FinishReason, ModelOptions};
use hier_agents::{ChatRequest, ChatResponse, ModelError, ToolErrors};
use hier_core::async_trait;
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::json;

use crate::support::{Filing, call, calls, offered, prompt};

graph! {
    /// Answers customers.
    Chat<BaseState> = Agent {
        system: "You answer customers.",
        tools: [weather],
        max_iterations: 3,
    }
}

graph! {
    /// Asks the others.
    Editor<BaseState> = Agent { subagents: [Chat {}] }
}

/// The weather of a city.
#[tool]
async fn weather(city: String) -> String {
    format!("sunny in {city}")
}

fn roles(state: &BaseState) -> Vec<&'static str> {
    let role = |message: &Message| match message.body {
        Body::System { .. } => "system",
        Body::User { .. } => "user",
        Body::Assistant { .. } => "assistant",
        Body::Tool { .. } => "tool",
        Body::Remove => "remove",
    };
    state.messages.iter().map(role).collect()
}

#[tokio::test]
async fn text_ends_the_agent_and_the_prompt_is_not_stored() {
    let model = ScriptedModel::new([Message::assistant("Hello!")]);
    let context = BaseContext::new(model.clone());
    let out = Chat::compile().invoke(Message::user("Good morning")).context(context).await.unwrap();
    assert!(out.is_finished());
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    let state = out.state();
    assert_eq!(roles(state), ["user", "assistant"]);
    assert_eq!(state.messages.last().unwrap().text(), "Hello!");
    assert_eq!((&*state.current_agent_report, state.is_finished), ("Hello!", true));
    assert_eq!(model.call_count(), 1);
    assert_eq!(prompt(&model, 0), ["You answer customers.", "Good morning"]);
    assert_eq!(offered(&model, 0), ["weather"]);
}

/// A supervisor receives only the report, so the sources are in it. The report of a root is the text of its answer.
#[tokio::test]
async fn report_of_a_subagent_has_the_sources_of_its_answer() {
    let source = Citation::new(0..5).with_title("Weather").with_url("https://weather.example");
    let cited = Message::assistant("Sunny.").with_citations([source]);
    let model = ScriptedModel::new([call("chat", json!({"task": "Rome?"})), cited.clone(), cited]);
    let out = Editor::compile().invoke(Message::user("Rome?")).context(BaseContext::new(model)).await.unwrap();
    let results = out.state().messages.iter().filter(|message| message.tool_call_id().is_some()).map(Message::text);
    let reports: Vec<String> = results.collect();
    assert!(reports[0].contains("Sunny.\n- \"Sunny\" (Weather, https://weather.example)"), "{reports:?}");
    assert_eq!(out.state().current_agent_report, "Sunny.");
}

#[tokio::test]
async fn model_is_asked_again_after_its_calls() {
    let model = ScriptedModel::new([
        calls([("weather", json!({"city": "Rome"})), ("weather", json!({"city": "Oslo"}))]),
        Message::assistant("Sunny in both."),
    ]);
    let context = BaseContext::new(model.clone());
    let out = Chat::compile().invoke(Message::user("Weather?")).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    assert_eq!(roles(out.state()), ["user", "assistant", "tool", "tool", "assistant"]);
    let sent = ["You answer customers.", "Weather?", "", "sunny in Rome", "sunny in Oslo"];
    assert_eq!(prompt(&model, 1), sent);
}

#[tokio::test]
async fn agent_at_its_limit_ends_without_its_last_calls() {
    let model = ScriptedModel::reacting(|_| call("weather", json!({"city": "Rome"})));
    let context = BaseContext::new(model.clone());
    let out = Chat::compile().invoke(Message::user("Weather?")).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Limit(AgentLimit::Iterations(3))));
    assert!(!out.state().is_finished);
    assert_eq!(model.call_count(), 3);
    assert_eq!(roles(out.state()), ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool"]);
    assert!(prompt(&model, 2)[0].ends_with("No more tools are called."), "{:?}", prompt(&model, 2));
    let last = out.state().messages.last().unwrap().text();
    assert_eq!(last, "Error: not called: the limit of iterations is reached. You can continue in the next turn.");
}

#[tokio::test]
async fn unknown_tool_gets_an_error_result() {
    let model = ScriptedModel::new([call("wether", json!({})), Message::assistant("Never mind.")]);
    let context = BaseContext::new(model.clone());
    let out = Chat::compile().invoke(Message::user("Weather?")).context(context).await.unwrap();
    assert!(out.is_finished());
    assert_eq!(prompt(&model, 1)[3], "Error: wether is not a valid tool, try one of [weather].");
}

#[tokio::test]
async fn empty_answers_are_retried_and_then_fail() {
    let model = ScriptedModel::new([Message::assistant(""), Message::assistant("Here I am.")]);
    let context = BaseContext::new(model.clone());
    let out = Chat::compile().invoke(Message::user("Hello?")).context(context).await.unwrap();
    assert_eq!((model.call_count(), roles(out.state())), (2, vec!["user", "assistant"]));

    let model = ScriptedModel::reacting(|_| Message::assistant(" "));
    let context = BaseContext::new(model.clone());
    let error = Chat::compile().invoke(Message::user("Hello?")).context(context).await.unwrap_err();
    let failed = AgentFailed::find_in(&error).unwrap();
    assert_eq!(
        failed.to_string(),
        "the agent `chat` received no usable reply from its model: 3 replies could not be used; reason for the last one: \
         the model returned an empty reply"
    );
    assert_eq!(model.call_count(), 3);
}

/// A model whose provider withholds each answer.
struct Withheld;

#[async_trait]
#[allow(clippy::unnecessary_literal_bound)] // others have their name in a field
impl ChatModel for Withheld {
    fn name(&self) -> &str {
        "withheld"
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatResponse, ModelError> {
        Ok(ChatResponse::new(Message::assistant("")).with_finish(FinishReason::ContentFilter))
    }
}

#[tokio::test]
async fn withheld_answer_has_its_own_ending() {
    let context = BaseContext::new(Withheld);
    let out = Chat::compile().invoke(Message::user("?")).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Limit(AgentLimit::Filtered)));
    let state = out.state();
    assert_eq!((roles(state), state.is_finished), (vec!["user"], false));
    assert_eq!(state.current_agent_report, "No answer: the agent ended early: the provider withheld its reply.");
}

struct Desk {
    base: BaseContext,
    smart: std::sync::Arc<dyn ChatModel>,
    cheap: ScriptedModel,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    Support<Filing, Desk> = Agent {
        system: |state: &Filing| format!("You are careful at risk {}.", state.risk),
        model: |desk| &desk.smart,
        options: ModelOptions { temperature: 0.2, reasoning: Effort::Low },
        subagents: [Clerk {}],
        tool_errors: ToolErrors::Tell,
    }
}

graph! {
    /// Looks things up.
    Clerk<Filing, Desk> = ReactGraph { model: |desk: &Desk| &desk.cheap }
}

#[tokio::test]
async fn each_agent_has_its_model_and_options() {
    let base = ScriptedModel::new([]);
    let smart = ScriptedModel::new([call("clerk", json!({"task": "look"})), Message::assistant("done")]);
    let cheap = ScriptedModel::new([call("report_to_supervisor", json!({"report": "found"}))]);
    let context =
        Desk { base: BaseContext::new(base.clone()), smart: std::sync::Arc::new(smart.clone()), cheap: cheap.clone() };
    let input = Filing::update().messages(Message::user("go")).risk(7);
    let out = Support::compile().invoke(input).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Text));
    assert_eq!((base.call_count(), smart.call_count(), cheap.call_count()), (0, 2, 1));
    let request = &smart.requests()[0];
    assert_eq!(request.options, ModelOptions::new().temperature(0.2).reasoning(Effort::Low));
    assert_eq!(prompt(&smart, 1), ["You are careful at risk 7.", "go", "", "found"]);
    assert_eq!(cheap.requests()[0].options, ModelOptions::new());
}

graph! {
    /// Finds out things.
    Researcher<Filing> = Agent { system: "You research.", tools: [weather], max_iterations: 2 }
}

graph! {
    Head<Filing> = TodoGraph { subagents: [Researcher { merge_fields: [findings] }] }
}

#[tokio::test]
async fn text_of_a_subagent_is_its_report() {
    let model = ScriptedModel::new([
        call("todo_write", json!({"items": ["find"]})),
        call("researcher", json!({"task": "find it", "task_scope": "Rome"})),
        call("weather", json!({"city": "Rome"})),
        Message::assistant("It is sunny."),
        call("todo_complete", json!({"item": "find"})),
        call("finish_task", json!({"result": "ok"})),
    ]);
    let context = BaseContext::new(model.clone());
    let out = Head::compile_as_root().invoke(Filing::update()).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Report));
    let sent = prompt(&model, 2);
    assert_eq!(sent[..2], ["You research.", "find it"]);
    assert!(sent[2].contains("LIMITED TO: Rome"));
    assert!(prompt(&model, 4).contains(&"It is sunny.".to_owned()));
    assert_eq!(out.state().base.current_agent_report, "ok");
}

#[tokio::test]
async fn subagent_at_its_limit_reports_to_its_supervisor() {
    let model = ScriptedModel::new([
        call("researcher", json!({"task": "find it"})),
        call("weather", json!({"city": "Rome"})),
        calls([("weather", json!({"city": "Oslo"}))]),
        call("finish_task", json!({"result": "ok"})),
    ]);
    let context = BaseContext::new(model.clone());
    let head = hier_agents::AgentBuilder::<Filing>::react("head");
    let researcher = hier_agents::Subagent::new(&Researcher::compile()).policy(hier_agents::SubagentPolicy::new());
    let head = head.subagent(researcher).compile_as_root().unwrap();
    let out = head.invoke(Filing::update()).context(context).await.unwrap();
    assert_eq!(out.ending(), Some(&AgentEnd::Report));
    let received = prompt(&model, 3);
    assert!(
        received.contains(
            &"No answer: the agent ended early: it reached its limit of model requests (`max_iterations`: 2)."
                .to_owned()
        ),
        "{received:?}"
    );
}

/// A model that returns this text and ends at its token limit.
struct Short(&'static str);

#[async_trait]
impl ChatModel for Short {
    fn name(&self) -> &'static str {
        "short"
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatResponse, ModelError> {
        Ok(ChatResponse::new(Message::assistant(self.0)).with_finish(FinishReason::Length))
    }
}

#[tokio::test]
async fn truncated_text_ends_at_the_length_limit() {
    let context = BaseContext::new(Short("Once upon a"));
    let out = Chat::compile().invoke(Message::user("Tell me a story")).context(context).await.unwrap();
    let end = out.ending().unwrap();
    assert_eq!(*end, AgentEnd::Limit(AgentLimit::Length));
    assert!(!end.is_success() && end.to_string().contains("cut off at the token limit"), "{end}");
    let state = out.state();
    assert_eq!((&*state.current_agent_report, roles(state)), ("Once upon a", vec!["user", "assistant"]));
    assert!(!state.is_finished);
}

/// A client can send such a conversation. A loop in a loop over the calls and results would not end within minutes.
#[test]
fn results_of_many_calls_are_paired_in_any_order() {
    let calls: Vec<ToolCall> =
        (0..100_000).map(|number| ToolCall::new("look", json!({})).with_id(number.to_string())).collect();
    let results = calls.iter().rev().map(|call| Message::tool(call, &*call.id));
    let ask = [Message::calls("ask", calls.clone()), Message::user("foreign")];
    let sent = hier_agents::paired(&ask.into_iter().chain(results).collect());
    let wanted = ["ask"].into_iter().chain(calls.iter().map(|call| &*call.id)).chain(["foreign"]);
    assert!(sent.iter().map(Message::text).eq(wanted));
}
