//! Random streams of chat completions with random styles.

use super::*;

/// The style in which a server marks the deltas of a call.
#[derive(Clone, Copy, Debug)]
struct CallStyle {
    index: IndexStyle,
    id: IdStyle,
    /// Each delta has the name.
    names_each: bool,
    /// The first delta has no arguments.
    has_head: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum IndexStyle {
    Own,
    Zero,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum IdStyle {
    Once,
    Each,
    /// A new id for each delta.
    Fresh,
    None,
}

fn style() -> impl Strategy<Value = CallStyle> {
    let index = prop_oneof![Just(IndexStyle::Own), Just(IndexStyle::Zero), Just(IndexStyle::None)];
    let id = prop_oneof![Just(IdStyle::Once), Just(IdStyle::Each), Just(IdStyle::Fresh), Just(IdStyle::None)];
    let all = (index, id, any::<bool>(), any::<bool>());
    let styles = all.prop_map(|(index, id, names_each, has_head)| CallStyle { index, id, names_each, has_head });
    // Without a number, a new id next to a name starts a new call.
    styles.prop_filter("ambiguous", |style| {
        !(style.index == IndexStyle::None && style.id == IdStyle::Fresh && style.names_each)
    })
}

#[derive(Clone, Debug)]
enum RandomEvent {
    /// A text, possibly with a finish reason.
    Text(String, bool),
    Thought(String),
    Refusal(String),
    Call(&'static str, Value, Vec<prop::sample::Index>),
    /// Fields of wrong types.
    Noise(usize),
}

fn noise(which: usize) -> Value {
    let all = [
        openai_delta(&json!({ "content": 5, "tool_calls": "x", "refusal": [], "reasoning": {} }), None),
        openai_delta(&json!({ "content": { "text": 1 }, "tool_calls": [5, null, {}, { "function": 7 }] }), None),
        openai_delta(&Value::Null, None),
        json!({ "choices": {}, "usage": "x", "model": 7, "error": null }),
        json!({ "choices": [{ "delta": [], "finish_reason": 5 }] }),
        json!({ "choices": [null] }),
        json!([]),
        json!("text"),
    ];
    all[which % all.len()].clone()
}

fn event() -> impl Strategy<Value = RandomEvent> {
    let text = || "[a-z{}\\[\\]\"\\\\€🎉ü\\n ]{1,8}";
    let args = prop::collection::btree_map("[a-c]", text(), 0..3).prop_map(|fields| json!(fields));
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    let name = prop_oneof![Just("pay"), Just("look")];
    prop_oneof![
        3 => (text(), any::<bool>()).prop_map(|(text, ends)| RandomEvent::Text(format!("t{text}"), ends)),
        2 => text().prop_map(RandomEvent::Thought),
        1 => text().prop_map(RandomEvent::Refusal),
        4 => (name, args, cuts).prop_map(|(name, args, cuts)| RandomEvent::Call(name, args, cuts)),
        2 => any::<usize>().prop_map(RandomEvent::Noise),
    ]
}

fn pieces_of_call(style: CallStyle, number: usize, name: &str, args: &str, cuts: &[prop::sample::Index]) -> Vec<Value> {
    let cuts = cuts.iter().map(|cut| cut.index(args.len() + 1)).filter(|at| args.is_char_boundary(*at));
    let mut places: Vec<usize> = cuts.chain([0, args.len()]).collect();
    places.sort_unstable();
    places.dedup();
    let mut parts: Vec<&str> = places.windows(2).map(|two| &args[two[0]..two[1]]).collect();
    if style.has_head {
        parts.insert(0, "");
    }
    let piece = |(at, part): (usize, &str)| {
        let mut piece = json!({ "type": "function", "function": { "arguments": part } });
        match style.index {
            IndexStyle::Own => piece["index"] = json!(number),
            IndexStyle::Zero => piece["index"] = json!(0),
            IndexStyle::None => {}
        }
        match style.id {
            IdStyle::Once if at > 0 => {}
            IdStyle::Once | IdStyle::Each => piece["id"] = json!(format!("c{number}")),
            IdStyle::Fresh => piece["id"] = json!(format!("c{number}-{at}")),
            IdStyle::None => {}
        }
        if at == 0 || style.names_each {
            piece["function"]["name"] = json!(name);
        }
        openai_delta(&json!({ "tool_calls": [piece] }), None)
    };
    parts.into_iter().enumerate().map(piece).collect()
}

#[derive(Default)]
struct ExpectedStream {
    values: Vec<Value>,
    text: String,
    thoughts: String,
    calls: Vec<(&'static str, Value)>,
    refused: bool,
}

impl ExpectedStream {
    fn add(&mut self, style: CallStyle, event: &RandomEvent) {
        match event {
            RandomEvent::Text(part, ends) => {
                self.values.push(openai_delta(&json!({ "content": part }), ends.then_some("stop")));
                self.text += part;
            }
            RandomEvent::Thought(part) => {
                self.values.push(openai_delta(&json!({ "reasoning_content": part }), None));
                self.thoughts += part;
            }
            RandomEvent::Refusal(part) => {
                self.values.push(openai_delta(&json!({ "refusal": part }), None));
                self.text += part;
                self.refused = true;
            }
            RandomEvent::Call(name, args, cuts) => {
                self.values.extend(pieces_of_call(style, self.calls.len(), name, &args.to_string(), cuts));
                self.calls.push((*name, args.clone()));
            }
            RandomEvent::Noise(which) => self.values.push(noise(*which)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The answer is complete for every style of marking calls, every early finish reason, and every split of the
    /// bytes.
    #[test]
    fn every_call_style_is_understood(
        style in style(),
        sent in prop::collection::vec(event(), 1..10),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut meant = ExpectedStream::default();
        for event in &sent {
            meant.add(style, event);
        }
        let is_empty = meant.text.is_empty() && meant.calls.is_empty();
        let end = if meant.calls.is_empty() { "stop" } else { "tool_calls" };
        meant.values.push(openai_delta(&json!({}), Some(end)));
        let bytes = (events(&meant.values) + "data: [DONE]\n\n").into_bytes();
        let cuts = cuts.iter().map(|cut| cut.index(bytes.len() + 1));
        let mut places: Vec<usize> = cuts.chain([0, bytes.len()]).collect();
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|two| &bytes[two[0]..two[1]]).collect();
        let answer = read(OPENAI, &pieces).map_err(|failure| TestCaseError::fail(format!("{failure:?}")))?;
        prop_assert_eq!(answer.text(), meant.text);
        let received: String = answer.message.reasoning().iter().map(|thought| &*thought.text).collect();
        prop_assert_eq!(received, meant.thoughts);
        let made: Vec<_> = answer.message.tool_calls().iter().map(|call| (&*call.name, call.args.clone())).collect();
        if meant.refused {
            prop_assert_eq!(answer.finish, Some(FinishReason::ContentFilter));
            prop_assert!(made.iter().all(|(_, args)| args.is_string()), "none can be made: {:?}", made);
        } else {
            prop_assert_eq!(made, meant.calls);
            prop_assert!(is_empty || answer.finish.is_some());
        }
    }
}
