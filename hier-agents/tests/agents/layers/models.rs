//! Models that fail: asked again, or another one in their place.

use std::time::Duration;

use hier_agents::layer::{Emails, Fallback, Layer, ModelCall, ModelReply, NextModel, Redact};
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, AgentEnd, ModelError, OutputSpec, ToolSpec};
use hier_core::graph::Retry;
use hier_core::{Result, async_trait};
use hier_testkit::ScriptedModel;
use serde_json::json;
use tokio::time::Instant;

use super::{Moody, Try, heard};
use crate::support::{Filing, call, offered};

struct Desk {
    base: BaseContext,
    cheap: Moody,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

fn desk(smart: &Moody, cheap: &Moody) -> Desk {
    Desk { base: BaseContext::new(smart.clone()), cheap: cheap.clone() }
}

fn falling_back() -> Fallback<Desk> {
    Fallback::<Desk>::new(|desk| &desk.cheap)
}

fn agent() -> AgentBuilder<BaseState, Desk> {
    AgentBuilder::new("support")
}

fn retry() -> Retry {
    Retry { attempts: 3, interval: Duration::from_secs(1), jitter: 0.0, ..Retry::default() }
}

fn unreachable_model() -> Moody {
    Moody::new("cheap", [])
}

#[tokio::test(start_paused = true)]
async fn busy_model_is_retried_and_refusal_is_not() {
    let support = agent().layer(retry()).compile().unwrap();
    let smart = Moody::new("smart", [Try::Busy(vec![]), Try::Busy(vec![]), Try::Says(vec!["Yes."])]);
    let began = Instant::now();
    let out = support.invoke(Message::user("?")).context(desk(&smart, &unreachable_model())).await.unwrap();
    assert_eq!((out.ending(), smart.call_count()), (Some(&AgentEnd::Text), 3));
    assert_eq!(began.elapsed(), Duration::from_secs(3));

    let smart = Moody::new("smart", [Try::Refuses]);
    let error = support.invoke(Message::user("?")).context(desk(&smart, &unreachable_model())).await.unwrap_err();
    assert!(error.to_string().contains("the request to the model `smart` failed"), "{error}");

    let smart = Moody::new("smart", vec![Try::Busy(vec![]); 3]);
    let error = support.invoke(Message::user("?")).context(desk(&smart, &unreachable_model())).await.unwrap_err();
    assert!(error.to_string().contains("busy"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn model_is_not_retried_after_streaming() {
    let support = agent().layer(retry()).compile().unwrap();
    let smart = Moody::new("smart", [Try::Busy(vec![]), Try::Busy(vec!["Y"])]);
    let (received, outcome) = heard(&support, Message::user("?"), desk(&smart, &unreachable_model())).await;
    assert_eq!((&*received.text(), smart.call_count()), ("Y", 2));
    assert!(outcome.unwrap_err().to_string().contains("busy"));
    // No client listens, so no chunk is repeated.
    let smart = Moody::new("smart", [Try::Busy(vec!["Y"]), Try::Says(vec!["Yes."])]);
    let _ = support.invoke(Message::user("?")).context(desk(&smart, &unreachable_model())).await.unwrap();
}

#[tokio::test]
async fn fallback_model_answers_if_the_first_fails() {
    let support = agent().layer(falling_back()).compile().unwrap();
    for first in [Try::Busy(vec![]), Try::Refuses] {
        for listening in [false, true] {
            let (smart, cheap) =
                (Moody::new("smart", [first.clone()]), Moody::new("cheap", [Try::Says(vec!["Ye", "s."])]));
            let context = desk(&smart, &cheap);
            let (received, out) = if listening {
                let (received, outcome) = heard(&support, Message::user("?"), context).await;
                (Some(received), outcome.unwrap())
            } else {
                (None, support.invoke(Message::user("?")).context(context).await.unwrap())
            };
            assert_eq!(out.state().current_agent_report, "Yes.");
            assert_eq!((smart.call_count(), cheap.call_count()), (1, 1));
            if let Some(received) = received {
                assert_eq!((&*received.text(), received.ends.len()), ("Yes.", 1));
                assert_eq!(received.ends[0].message.id, out.state().messages.last().unwrap().id);
            }
        }
    }
}

#[tokio::test]
async fn fallback_after_streaming_needs_an_option() {
    let half = || Moody::new("smart", [Try::Busy(vec!["Mo"])]);
    let support = agent().layer(falling_back()).compile().unwrap();
    let (smart, cheap) = (half(), unreachable_model());
    let (received, outcome) = heard(&support, Message::user("?"), desk(&smart, &cheap)).await;
    assert_eq!(received.text(), "Mo");
    assert!(outcome.unwrap_err().to_string().contains("busy"));

    let support = agent().layer(falling_back().after_chunks()).compile().unwrap();
    let (smart, cheap) = (half(), Moody::new("cheap", [Try::Says(vec!["Tues", "day."])]));
    let (received, outcome) = heard(&support, Message::user("?"), desk(&smart, &cheap)).await;
    assert_eq!(outcome.unwrap().state().current_agent_report, "Tuesday.");
    let (first, rest) = received.texts.split_first().unwrap();
    assert_eq!(first.1, "Mo");
    // A client can distinguish the two answers.
    assert!(rest.iter().all(|(id, _)| *id != first.0), "{received:?}");
    assert_eq!(received.ends[0].text(), "Tuesday.");

    // Nothing went out, since all of it was held back: another one may answer.
    let support = agent().layer(falling_back()).layer(Redact::new(Emails)).compile().unwrap();
    let (smart, cheap) = (half(), Moody::new("cheap", [Try::Says(vec!["Tues", "day."])]));
    let (received, outcome) = heard(&support, Message::user("?"), desk(&smart, &cheap)).await;
    assert_eq!((&*received.text(), &*outcome.unwrap().state().current_agent_report), ("Tuesday.", "Tuesday."));
}

#[tokio::test(start_paused = true)]
async fn inner_retry_applies_to_each_fallback_model() {
    let support = agent().layer(falling_back()).layer(retry()).compile().unwrap();
    let smart = Moody::new("smart", vec![Try::Busy(vec![]); 3]);
    let cheap = Moody::new("cheap", [Try::Busy(vec![]), Try::Says(vec!["Yes."])]);
    let _ = support.invoke(Message::user("?")).context(desk(&smart, &cheap)).await.unwrap();
    assert_eq!((smart.call_count(), cheap.call_count()), (3, 2));
}

#[tokio::test]
async fn fallback_returns_the_error_of_the_last_model() {
    let support = agent().layer(falling_back().or(|desk: &Desk| &desk.cheap)).compile().unwrap();
    let (smart, cheap) = (Moody::new("smart", [Try::Refuses]), Moody::new("cheap", [Try::Refuses, Try::Busy(vec![])]));
    let error = support.invoke(Message::user("?")).context(desk(&smart, &cheap)).await.unwrap_err();
    assert!(error.to_string().contains("`cheap` is unavailable: busy"), "{error}");
}

struct Court {
    base: BaseContext,
    cheap: ScriptedModel,
}

impl AsRef<BaseContext> for Court {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    Judge<Filing, Court> = Agent { answer: artifact, layers: [OtherTool, Fallback(|court| &court.cheap)] }
}

/// Offers one more tool.
struct OtherTool;

#[async_trait]
impl Layer<Filing, Court> for OtherTool {
    async fn model_call(
        &self,
        mut call: ModelCall<'_, Filing, Court>,
        next: NextModel<'_, Filing, Court>,
    ) -> Result<ModelReply<Filing>> {
        let (name, description) = ("other".to_owned(), String::new());
        let other = ToolSpec { name, description, parameters: json!({"type": "object"}) };
        call.request.tools = call.request.tools.iter().cloned().chain([other]).collect();
        next.call(call).await
    }
}

/// The fallback cannot be held to a schema. It gives the answer with a tool.
#[tokio::test]
async fn fallback_for_a_typed_answer_keeps_the_tools_of_a_layer() {
    let busy = || ModelError::Unavailable { model: "smart".to_owned(), reason: "busy".to_owned(), source: None };
    let smart = ScriptedModel::try_reacting(move |_| Err(busy())).native_output();
    let cheap = ScriptedModel::new([call("final_answer", json!({"value": "right"}))]);
    let court = Court { base: BaseContext::new(smart.clone()), cheap: cheap.clone() };
    let out = Judge::compile().invoke(Filing::update().messages(Message::user("?"))).context(court).await.unwrap();
    assert_eq!(out.state().artifact.as_deref(), Some("right"));
    assert_eq!(
        (offered(&smart, 0), offered(&cheap, 0)),
        (vec!["other".into()], vec!["other".into(), "final_answer".into()])
    );
}

/// Requests another form of answer than the agent.
struct OtherOutput(Option<OutputSpec>);

#[async_trait]
impl Layer<Filing, Court> for OtherOutput {
    async fn model_call(
        &self,
        mut call: ModelCall<'_, Filing, Court>,
        next: NextModel<'_, Filing, Court>,
    ) -> Result<ModelReply<Filing>> {
        call.request.output.clone_from(&self.0);
        next.call(call).await
    }
}

/// The fallback receives either the schema of the typed answer or the tool that gives it, and never both or neither.
#[tokio::test]
async fn fallback_for_a_typed_answer_has_one_form_of_it() {
    let busy = || ModelError::Unavailable { model: "smart".to_owned(), reason: "busy".to_owned(), source: None };
    let (smart, tool) =
        (ScriptedModel::try_reacting(move |_| Err(busy())), call("final_answer", json!({"value": "right"})));
    let text = Message::assistant(json!({"value": "right"}).to_string());
    let of_layer = OutputSpec::of_type::<String>("other");
    for (smart, cheap, output, is_native) in [
        (smart.clone(), ScriptedModel::new([text]).native_output(), Some(of_layer), true),
        (smart.native_output(), ScriptedModel::new([tool]), None, false),
    ] {
        let judge = AgentBuilder::<Filing, Court>::new("judge").answer(&Filing::channels().artifact);
        let judge =
            judge.layer(OtherOutput(output)).layer(Fallback::<Court>::new(|court| &court.cheap)).compile().unwrap();
        let court = Court { base: BaseContext::new(smart), cheap: cheap.clone() };
        let out = judge.invoke(Filing::update().messages(Message::user("?"))).context(court).await.unwrap();
        assert_eq!(out.state().artifact.as_deref(), Some("right"));
        let request = &cheap.requests()[0];
        let has_tool = request.tools.iter().any(|tool| tool.name == "final_answer");
        assert_eq!((request.output.is_some(), has_tool), (is_native, !is_native));
    }
}
