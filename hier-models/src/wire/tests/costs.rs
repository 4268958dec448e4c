use hier_agents::{ChatRequest, Message, Usage, Usd};
use serde_json::{Value, json};

use super::super::*;

/// Returns the cost of an answer with this usage: as a whole, and streamed.
fn cost(wire: &dyn Dialect, usage: &Value) -> Option<Usd> {
    let request = ChatRequest::new([Message::user("hi")]);
    let message = json!({ "role": "assistant", "content": "yes" });
    let whole = json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": usage });
    let mut draft = AnswerDraft::new(&request, "maker".to_owned(), false);
    wire.read_answer(&mut draft, &whole).unwrap();
    let at_once = draft.into_answer().unwrap().message.usage();

    let mut draft = AnswerDraft::new(&request, "maker".to_owned(), true);
    let delta = recorded::openai_delta(&json!({ "content": "yes" }), Some("stop"));
    for event in [delta, json!({ "choices": [], "usage": usage }), Value::Null] {
        wire.read_event(&mut draft, &event).unwrap();
    }
    assert_eq!(draft.into_answer().unwrap().message.usage(), at_once);
    at_once.and_then(|usage: Usage| usage.cost)
}

/// As documented at <https://openrouter.ai/docs/cookbook/administration/usage-accounting>.
#[test]
fn openrouter_reports_costs() {
    let usage = |more: Value| {
        let mut usage = json!({ "prompt_tokens": 194, "completion_tokens": 2, "total_tokens": 196, "cost": 0.00095 });
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        usage
    };
    let upstream = json!({ "upstream_inference_cost": 0.019 });
    let cases = [
        (json!({}), Some(0.000_95)),
        (json!({ "is_byok": false, "cost_details": upstream }), Some(0.000_95)),
        // The user pays the provider, and a fee to OpenRouter.
        (json!({ "is_byok": true, "cost_details": upstream }), Some(0.019_95)),
        (json!({ "is_byok": true, "cost": 0, "cost_details": upstream }), Some(0.019)),
        (json!({ "is_byok": true }), None),
        (json!({ "cost": 0 }), Some(0.0)),
        (json!({ "cost": null }), None),
        (json!({ "cost": -1 }), None),
        (json!({ "cost": "0.1" }), None),
    ];
    for (more, expected) in cases {
        assert_eq!(cost(OPENROUTER, &usage(more.clone())), expected.map(Usd::from_dollars), "{more}");
    }
    // The unit of another server's number is unknown.
    assert_eq!(cost(OPENAI, &usage(json!({}))), None);
    assert_eq!([OPENROUTER, OPENAI, AZURE].map(Dialect::reports_cost), [true, false, false]);
}
