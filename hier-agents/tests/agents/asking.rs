//! Models that custom nodes ask: streamed, counted and traced like those of agents.

use std::sync::Arc;

use hier_agents::prelude::*;
use hier_agents::{Body, Budget, ChatChunk, ChatModel, Effort, ModelError, ModelOptions, Spent, ToolSpec, Usage};
use hier_core::checkpoint::MemorySaver;
use hier_core::{Event, Result};
use hier_testkit::ScriptedModel;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Trip {
    wish: String,
    steps: Vec<String>,
    #[reducer(messages)]
    messages: Messages,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Plan {
    steps: Vec<String>,
}

struct Desk {
    base: BaseContext,
    smart: Arc<dyn ChatModel>,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    Planner<Trip, BaseContext> = Graph { nodes: [plan], edges: [START >> plan >> END] }
}

graph! {
    Chat<Trip, Desk> = Graph { nodes: [think], edges: [START >> think >> END] }
}

async fn plan(state: &Trip, run: &Run<BaseContext>) -> Result<TripUpdate> {
    let plan = run.model()?.ask(&*state.wish).system("You plan.").output::<Plan>().await?;
    Ok(Trip::update().steps(plan.steps))
}

async fn think(state: &Trip, run: &Run<Desk>) -> Result<TripUpdate> {
    let look =
        ToolSpec { name: "look".to_owned(), description: "Looks.".to_owned(), parameters: json!({"type": "object"}) };
    let options = ModelOptions::new().temperature(0.5).reasoning(Effort::Low);
    let first = run.model()?.ask(&state.messages).tools([look]).options(options).await?;
    let second = run.model()?.with(&run.context().smart).ask([Message::user("and you?")]).await?;
    let third = run.using(&run.context().smart).ask(Message::user("really?")).await?;
    Ok(Trip::update().messages([first.message, second.message, third.message]))
}

fn says(text: &str) -> Message {
    Message::assistant(text).with_usage(Usage::new(10, 5))
}

async fn planned(model: &ScriptedModel) -> Result<Trip, RunError> {
    let wish = Trip::update().wish("To the sea");
    let out = Planner::compile().invoke(wish).context(BaseContext::new(model.clone())).await?;
    Ok(out.into_state())
}

fn texts(model: &ScriptedModel, place: usize) -> Vec<String> {
    model.requests()[place].messages.iter().map(Message::text).collect()
}

#[tokio::test]
async fn typed_answer_is_requested_until_it_fits() {
    let model = ScriptedModel::new([
        says(r#"{"steps": 5}"#),
        Message::call("look", json!({})),
        says("```json\n{\"steps\": [\"pack\", \"go\"]}\n```"),
    ]);
    assert_eq!(planned(&model).await.unwrap().steps, ["pack", "go"]);
    let asked = model.requests();
    let output = asked[0].output.as_ref().expect("the shape is asked for");
    assert_eq!((output.name.as_str(), &output.schema["required"]), ("Plan", &json!(["steps"])));
    assert_eq!(texts(&model, 0), ["You plan.", "To the sea"]);
    assert!(matches!(asked[0].messages.get(0).unwrap().body, Body::System { .. }));
    let received = texts(&model, 1).pop().unwrap();
    assert!(received.contains("`steps`: invalid type: integer `5`, expected a sequence"), "{received}");
    // A call is answered, or the conversation would be none.
    let answered = asked[2].messages.iter().any(|message| message.tool_call_id().is_some());
    assert!(answered && texts(&model, 2).pop().unwrap().contains("it calls tools"));
}

#[tokio::test]
async fn answer_that_never_fits_is_quoted_in_the_error() {
    let model = ScriptedModel::reacting(|_| says("I would rather not."));
    let error = planned(&model).await.unwrap_err().to_string();
    assert_eq!(model.call_count(), 3);
    assert!(
        error.contains("node `plan` of graph `planner`") && error.contains("the model replied `I would rather not.`"),
        "{error}"
    );
}

#[tokio::test]
async fn node_uses_another_model_options_and_tools() {
    let (plain, smart) = (ScriptedModel::new([says("one")]), ScriptedModel::new([says("two"), says("three")]));
    let budget = Arc::new(Budget::new());
    let base = BaseContext { budget: Some(budget.clone()), ..BaseContext::new(plain.clone()) };
    let desk = Desk { base, smart: Arc::new(smart.clone()) };
    let begin = Trip::update().messages(Message::user("hello"));
    let out = Chat::compile().invoke(begin).context(desk).await.unwrap();
    let said: Vec<String> = out.state().messages.iter().map(Message::text).collect();
    assert_eq!(said, ["hello", "one", "two", "three"]);
    let request = &plain.requests()[0];
    assert_eq!((request.tools.len(), request.options.temperature), (1, Some(0.5)));
    assert_eq!(request.options.reasoning, Some(Effort::Low));
    assert_eq!(budget.spent(), Spent { model_calls: 3, tokens: 45, ..Spent::default() });
}

#[tokio::test]
async fn exhausted_budget_is_an_error() {
    let model = ScriptedModel::reacting(|_| says("no plan"));
    let context = BaseContext::new(model.clone()).budget(Budget::new().model_calls(2));
    let error = Planner::compile().invoke(Trip::update().wish("x")).context(context).await.unwrap_err().to_string();
    assert!(error.contains("the budget of the whole run is used up (model calls: 2)"), "{error}");
    assert_eq!(model.call_count(), 2);
    let error = Planner::compile().invoke(Trip::update()).context(BaseContext::default()).await.unwrap_err();
    assert!(error.to_string().contains("the context has no model"), "{error}");
}

#[tokio::test]
async fn mismatched_answer_is_shown() {
    let said = |text: &'static str| async move {
        planned(&ScriptedModel::reacting(move |_| says(text))).await.unwrap_err().to_string()
    };
    let error = said("no plan").await;
    assert!(
        error.contains("it is not JSON: expected ident at line 1 column 2; the model replied `no plan`"),
        "{error}"
    );
    let error = said(r#"{"steps": ["#).await;
    assert!(error.contains("it is not JSON: EOF"), "{error}");
    let error = said(r#"{"steps": [7]}"#).await;
    assert!(error.contains("`steps[0]`: invalid type: integer `7`, expected a string"), "{error}");
    let error = said("{}").await;
    assert!(error.contains("cannot be used: missing field `steps`"), "{error}");
}

#[tokio::test]
async fn failing_model_fails_its_node() {
    let refuse = |_: &_| Err(ModelError::Refused { model: "m".to_owned(), reason: "no key".to_owned() });
    let error = planned(&ScriptedModel::try_reacting(refuse)).await.unwrap_err();
    let RunError::Node { error, .. } = error else { panic!("{error}") };
    assert!(!error.is_transient() && error.source().unwrap().is::<ModelError>(), "{error}");
}

#[tokio::test]
async fn node_requests_are_streamed() {
    let context = BaseContext::new(ScriptedModel::new([says(r#"{"steps": ["a b c"]}"#)]));
    let mut events = Planner::compile().stream(Trip::update()).context(context).modes([StreamMode::Messages]);
    let (mut text, mut done) = (String::new(), 0);
    while let Some(event) = events.next().await {
        let Event::Message(spoken) = event.unwrap() else { panic!("only messages were asked for") };
        assert_eq!((spoken.node.as_str(), spoken.agent.as_str()), ("plan", "planner"));
        match spoken.chunk {
            ChatChunk::Text(piece) => text.push_str(&piece),
            ChatChunk::Done(_) => done += 1,
            _ => {}
        }
    }
    assert_eq!((text.as_str(), done), (r#"{"steps": ["a b c"]}"#, 1));
}

graph! {
    Recorded<Trip, BaseContext> = Graph { nodes: [agree], edges: [START >> agree >> END] }
}

/// Asks the model for a draft and a plan, then a person; what follows depends on the person.
async fn agree(state: &Trip, run: &Run<BaseContext>) -> Result<TripUpdate> {
    let draft = run.model()?.ask(&*state.wish).step("draft").await?;
    let plan = run.model()?.ask(draft.message.clone()).output::<Plan>().step("plan").await?;
    let wish: String = run.interrupt(&plan.steps).await?;
    let other = run.model()?.ask(wish).step("draft").await?;
    Ok(Trip::update().messages([draft.message, other.message]).steps(plan.steps))
}

#[tokio::test]
async fn recorded_answer_is_not_requested_again() {
    let model =
        ScriptedModel::new([says("a draft"), says("no plan"), says(r#"{"steps": ["pack"]}"#), says("another draft")]);
    let context = || BaseContext::new(model.clone()).budget(Budget::new().model_calls(4));
    let graph = Recorded::compile().checkpointer(MemorySaver::new());
    let asked = graph.invoke(Trip::update().wish("To the sea")).thread("t").context(context()).await.unwrap();
    assert!(!asked.is_finished());
    assert_eq!(model.requests().len(), 3, "an answer that does not fit is asked for again");
    let end = graph.invoke(Command::resume("To the hills")).thread("t").context(context()).await.unwrap();
    let said: Vec<_> = end.state().messages.iter().map(Message::text).collect();
    assert_eq!(said, ["a draft", "another draft"], "another question under the name of the step is asked");
    assert_eq!(end.state().steps, ["pack"]);
    assert_eq!(model.requests().len(), 4, "the answered request is not repeated");
}
