//! A conversation in the form that every provider accepts. Instructions come first, each call has a unique id and a
//! valid name, and each call is followed by its result.
//!
//! Providers refuse a conversation in which a tool call has no result or a result has no call, and they refuse it again
//! on each later request. Such gaps are therefore filled here, in the request only. Thoughts are sent back only to the
//! provider that made them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use hier_agents::{Body, ChatRequest, Content, Message, Reasoning, ToolCall, ToolStatus};
use hier_core::message::IdQueues;
use serde_json::Value;

use crate::media::sendable;

/// The result that is sent for a call without a result.
const OPEN: &str = "No result: this call was not made, or has not ended.";
/// The first user message for providers that require one, if the conversation starts differently.
pub(crate) const BEGINNING: &str = "Begin.";
/// The replacement for a tool name that providers refuse.
const UNKNOWN: &str = "unknown_tool";
/// The longest tool name or call id that providers accept, in bytes.
const LONGEST_NAME: usize = 64;

/// The fields in which provider-specific parts are kept: the blocks of Anthropic and Bedrock, OpenAI's items, Gemini's
/// parts.
pub(crate) const OPAQUE: [&str; 4] = ["block", "converse_block", "item", "part"];
/// The field that marks a provider-specific part that followed its call.
pub(crate) const BEHIND: &str = "behind";

pub(crate) struct WireConversation<'a> {
    /// The system messages, without duplicates.
    pub(crate) system: Vec<String>,
    pub(crate) turns: Vec<ConversationTurn<'a>>,
}

pub(crate) enum ConversationTurn<'a> {
    User(Cow<'a, Content>),
    Model(ModelTurn<'a>),
}

/// A message of the model, with the results of its calls.
pub(crate) struct ModelTurn<'a> {
    /// The thoughts that led to no call and that the model of this request has made.
    pub(crate) thoughts: Vec<&'a Reasoning>,
    /// True if no user message follows.
    pub(crate) current: bool,
    /// `None` for blank text, which providers refuse.
    pub(crate) text: Option<String>,
    pub(crate) calls: Vec<AnsweredCall<'a>>,
}

/// A thought, or a piece of text, in a message of the model.
pub(crate) enum Segment<'a> {
    Thought(&'a Reasoning),
    Text(&'a str),
}

impl ModelTurn<'_> {
    /// Returns the thoughts and texts that precede the calls, in their order.
    pub(crate) fn segments(&self) -> Vec<Segment<'_>> {
        let text = self.text.as_deref().unwrap_or_default();
        let mut segments = Vec::with_capacity(self.thoughts.len() + 1);
        let mut start = 0;
        for &thought in &self.thoughts {
            // The text may have been edited since, so the offset may be invalid.
            if let Some(before) = text.get(start..thought.offset) {
                segments.push(Segment::Text(before));
                start = thought.offset;
            }
            segments.push(Segment::Thought(thought));
        }
        segments.push(Segment::Text(&text[start..]));
        // Providers refuse blank texts.
        segments.retain(|segment| !matches!(segment, Segment::Text(text) if text.trim().is_empty()));
        segments
    }

    pub(crate) fn all_thoughts(&self) -> impl Iterator<Item = &Reasoning> {
        let of_calls = self.calls.iter().flat_map(|call| &call.thoughts);
        self.thoughts.iter().chain(of_calls).copied()
    }
}

/// A tool call with its result.
pub(crate) struct AnsweredCall<'a> {
    /// The thoughts that led to the call and that the model of this request has made.
    pub(crate) thoughts: Vec<&'a Reasoning>,
    /// Unique in the conversation.
    pub(crate) id: String,
    pub(crate) name: &'a str,
    /// Always an object.
    pub(crate) args: Cow<'a, Value>,
    pub(crate) result: Cow<'a, Content>,
    pub(crate) failed: bool,
}

impl AnsweredCall<'_> {
    /// Returns the thoughts that preceded the call.
    pub(crate) fn thoughts_before(&self) -> impl Iterator<Item = &Reasoning> {
        self.thoughts.iter().copied().filter(|thought| thought.data.get(BEHIND).is_none())
    }

    /// Returns the parts that followed the call.
    pub(crate) fn parts_behind(&self) -> impl Iterator<Item = &Reasoning> {
        self.thoughts.iter().copied().filter(|thought| thought.data.get(BEHIND).is_some())
    }
}

impl<'a> WireConversation<'a> {
    /// Builds the conversation of a request. `maker` identifies the model that receives it.
    pub(crate) fn new(request: &'a ChatRequest, maker: &str) -> Self {
        let list: Vec<&Message> = request.messages.iter().collect();
        let mut conversation = Self { system: Vec::new(), turns: Vec::with_capacity(list.len()) };
        let mut results = ResultMatcher::new(&list);
        let mut instructions = HashSet::new();
        for (place, message) in list.iter().enumerate() {
            match &message.body {
                Body::System { content } => {
                    let text = content.text();
                    if !text.trim().is_empty() && instructions.insert(text.clone()) {
                        conversation.system.push(text);
                    }
                }
                Body::User { content } => conversation.turns.push(ConversationTurn::User(sendable(content))),
                Body::Assistant { content, calls, reasoning, .. } => {
                    let own = || reasoning.iter().filter(|thought| thought.maker == maker);
                    let mut of_calls: HashMap<&str, Vec<&Reasoning>> = HashMap::new();
                    for thought in own() {
                        if let Some(call) = &thought.call {
                            of_calls.entry(call).or_default().push(thought);
                        }
                    }
                    // If calls have the same id, the first one gets the thoughts.
                    let mut of_call = |call: &ToolCall| of_calls.remove(&*call.id).unwrap_or_default();
                    let calls = calls.iter().map(|call| results.pair(place, call, of_call(call))).collect();
                    let thoughts = own().filter(|thought| thought.call.is_none()).collect();
                    conversation.add_model_turn(content.text(), calls, thoughts);
                }
                Body::Tool { content, .. } if !results.used[place] => {
                    let text = format!("The result of a tool call: {}", content.text());
                    conversation.turns.push(ConversationTurn::User(Cow::Owned(Content::Text(text))));
                }
                _ => {}
            }
        }
        let turns = conversation.turns.iter_mut().rev().take_while(|turn| matches!(turn, ConversationTurn::Model(_)));
        for turn in turns {
            if let ConversationTurn::Model(turn) = turn {
                turn.current = true;
            }
        }
        conversation
    }

    pub(crate) fn begins_with_user(&self) -> bool {
        matches!(self.turns.first(), Some(ConversationTurn::User(_)))
    }

    /// Adds a message of the model. Providers refuse an empty message unless it has a provider-specific part.
    fn add_model_turn(&mut self, text: String, calls: Vec<AnsweredCall<'a>>, thoughts: Vec<&'a Reasoning>) {
        let text = Some(text).filter(|text| !text.trim().is_empty());
        let has_opaque = || thoughts.iter().any(|thought| OPAQUE.iter().any(|part| thought.data.get(part).is_some()));
        if text.is_some() || !calls.is_empty() || has_opaque() {
            self.turns.push(ConversationTurn::Model(ModelTurn { thoughts, current: false, text, calls }));
        }
    }
}

/// Pairs calls with their results, and gives each call a unique id.
struct ResultMatcher<'a, 'l> {
    list: &'l [&'a Message],
    results: IdQueues<'a>,
    used: Vec<bool>,
    ids: HashSet<String>,
    /// The smallest number that was not tried as a part of an id.
    next_number: usize,
}

impl<'a, 'l> ResultMatcher<'a, 'l> {
    fn new(list: &'l [&'a Message]) -> Self {
        let results = list.iter().enumerate().filter_map(|(at, message)| Some((message.tool_call_id()?, at)));
        let results = IdQueues::at(results);
        Self { list, results, used: vec![false; list.len()], ids: HashSet::new(), next_number: 0 }
    }

    /// Pairs a call with the first later result of the same id that belongs to no other call.
    fn pair(&mut self, place: usize, call: &'a ToolCall, thoughts: Vec<&'a Reasoning>) -> AnsweredCall<'a> {
        let result = self.results.take(&call.id, place + 1);
        let (result, failed) = match result.map(|at| (at, &self.list[at].body)) {
            Some((at, Body::Tool { content, status, .. })) => {
                self.used[at] = true;
                (sendable(content), *status == ToolStatus::Error)
            }
            _ => (Cow::Owned(Content::Text(OPEN.to_owned())), false),
        };
        let id = self.unique_id(&call.id);
        let name = if is_name(&call.name) { &*call.name } else { UNKNOWN };
        let args = if call.args.is_object() { Cow::Borrowed(&call.args) } else { Cow::Owned(serde_json::json!({})) };
        AnsweredCall { thoughts, id, name, args, result, failed }
    }

    fn unique_id(&mut self, id: &str) -> String {
        let mut own = if is_name(id) { id.to_owned() } else { String::new() };
        while own.is_empty() || self.ids.contains(&own) {
            let number = self.next_number.max(self.ids.len());
            own = format!("call_{number}");
            self.next_number = number + 1;
        }
        self.ids.insert(own.clone());
        own
    }
}

/// Returns true if all providers accept the text as a name or an id.
fn is_name(text: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'-';
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(fits)
}
