//! Tests that random conversations obey Bedrock's rules for requests.

use std::collections::HashSet;

use hier_agents::{ChatRequest, Content, Message, ModelOptions, Part, ToolCall, ToolChoice};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;
use super::{asking, sent};

#[derive(Clone, Debug)]
enum Step {
    User(&'static str),
    File(bool),
    /// The model answers with this text and this many calls.
    Model(&'static str, usize),
    /// One of the open calls gets a result.
    Result(&'static str),
    FileResult,
}

fn step() -> impl Strategy<Value = Step> {
    let text = || prop_oneof![Just(""), Just(" \n"), Just("text")];
    prop_oneof![
        3 => text().prop_map(Step::User),
        2 => any::<bool>().prop_map(Step::File),
        4 => (text(), 0..3_usize).prop_map(|(text, calls)| Step::Model(text, calls)),
        4 => text().prop_map(Step::Result),
        1 => Just(Step::FileResult),
    ]
}

fn conversation(steps: &[Step]) -> Vec<Message> {
    let (mut messages, mut open) = (Vec::new(), Vec::<ToolCall>::new());
    let file = || Content::parts([Part::file_data("text/csv", "aGk=").named("a.csv")]);
    for (place, step) in steps.iter().enumerate() {
        messages.push(match *step {
            Step::User(text) => Message::user(text),
            Step::File(false) => Message::user(file()),
            Step::File(true) => Message::user(Content::parts([Part::image_data("image/png", "aGk=")])),
            Step::Model(text, count) => {
                let call = |number| ToolCall {
                    name: "look".to_owned(),
                    args: json!({ "document": { "source": 1 } }),
                    id: format!("call-{place}-{number}"),
                };
                let calls: Vec<ToolCall> = (0..count).map(call).collect();
                open.extend(calls.clone());
                Message::calls(text, calls)
            }
            Step::Result(_) | Step::FileResult if open.is_empty() => continue,
            Step::Result(text) => Message::tool(&open.remove(place % open.len()), text),
            Step::FileResult => Message::tool(&open.remove(place % open.len()), file()),
        });
    }
    messages
}

fn kind(block: &Value) -> &str {
    block.as_object().unwrap().keys().next().unwrap()
}

fn ids(message: &Value, kind: &str) -> Vec<String> {
    let blocks = message["content"].as_array().unwrap().iter().filter_map(|block| block.get(kind));
    blocks.map(|block| block["toolUseId"].as_str().unwrap().to_owned()).collect()
}

/// Fails with the rule that a request breaks.
fn broken_rule(body: &Value, refused_beside_results: &[&str]) -> Result<(), String> {
    let messages = body["messages"].as_array().unwrap();
    let ensure = |holds: bool, rule: &str| if holds { Ok(()) } else { Err(format!("{rule}: {body:#}")) };
    ensure(messages.first().is_some_and(|first| first["role"] == "user"), "the user begins")?;
    for two in messages.windows(2) {
        ensure(two[0]["role"] != two[1]["role"], "roles alternate")?;
        ensure(ids(&two[0], "toolUse") == ids(&two[1], "toolResult"), "each call has its result")?;
    }
    ensure(messages.last().is_none_or(|last| ids(last, "toolUse").is_empty()), "no call is open")?;
    let mut names = HashSet::new();
    for message in messages {
        let blocks = message["content"].as_array().unwrap();
        ensure(!blocks.is_empty(), "no message is empty")?;
        let kinds: Vec<&str> = blocks.iter().map(kind).collect();
        let has = |kind: &str| kinds.contains(&kind);
        ensure(!has("document") || has("text"), "a document has a text")?;
        let is_lonely = !kinds.iter().any(|kind| refused_beside_results.contains(kind));
        ensure(!has("toolResult") || is_lonely, "results stand apart")?;
        ensure(!has("toolUse") || body.get("toolConfig").is_some(), "calls need a declaration")?;
        let results = blocks.iter().filter_map(|block| block.get("toolResult")?["content"].as_array()).flatten();
        for block in blocks.iter().chain(results) {
            let is_blank = block["text"].as_str().is_some_and(|text| text.trim().is_empty());
            ensure(!is_blank, "no text is blank")?;
            let name = block.pointer("/document/name").map(|name| name.as_str().unwrap().to_ascii_lowercase());
            ensure(name.is_none_or(|name| names.insert(name)), "names of documents are unique")?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn random_conversations_are_accepted(steps in prop::collection::vec(step(), 0..12), has_tools in any::<bool>()) {
        let documents = ["document"].as_slice();
        for (model, refused) in [
            ("anthropic.claude-sonnet-4-5-20250929-v1:0", documents),
            ("arn:aws:bedrock:us-east-1:1:application-inference-profile/a", documents),
            ("meta.llama4-scout-17b-instruct-v1:0", &["document", "image", "text"]),
            ("amazon.nova-pro-v1:0", &[]),
        ] {
            for choice in [None, Some(ToolChoice::None)] {
                let options = ModelOptions::new().tool_choice(choice);
                let tools = if has_tools { asking(ModelOptions::new()).tools } else { [].into() };
                let request = ChatRequest::new(conversation(&steps)).tools(tools).options(options);
                let body = sent(BEDROCK, model, &request).unwrap();
                prop_assert_eq!(broken_rule(&body, refused), Ok(()), "{}", model);
            }
        }
    }
}
