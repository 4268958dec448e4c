//! A conversation as any provider takes it: instructions first, each call with an id of its own and a name that fits, and
//! each call followed by its result.
//!
//! Providers refuse a conversation in which a tool call has no result, or a result no call, and they refuse it again each
//! time it is sent: what cannot be sent is therefore mended here, for the provider only. What models thought is sent back
//! to its maker; to everybody else it means nothing, and is left out.

use std::borrow::Cow;
use std::collections::HashSet;

use hier_agents::{Body, ChatRequest, Content, Message, Reasoning, ToolCall, ToolStatus};
use serde_json::Value;

use crate::media::sendable;

/// The result that is sent for a call without one.
const OPEN: &str = "No result: this call was not made, or has not ended.";
/// What a conversation begins with where no user says anything first, for providers that want that.
pub(crate) const BEGINNING: &str = "Begin.";
/// The name that stands for one which no provider takes.
const UNKNOWN: &str = "unknown_tool";
/// The longest name that providers take, in bytes.
const LONGEST_NAME: usize = 64;

/// The fields of what is kept as it came: a block of Anthropic's, an item of OpenAI's, a part of Gemini's.
const OPAQUE: [&str; 3] = ["block", "item", "part"];

/// A conversation, ready to be written down in a dialect.
pub(crate) struct Conversation<'a> {
    /// What the model is told to be, each text once.
    pub(crate) system: Vec<String>,
    pub(crate) turns: Vec<Turn<'a>>,
}

/// What one side says.
pub(crate) enum Turn<'a> {
    User(Cow<'a, Content>),
    Model(Said<'a>),
}

/// What the model said, with the results of what it called.
pub(crate) struct Said<'a> {
    /// What it thought before it said or called anything, if it was the model that is asked now.
    pub(crate) thoughts: Vec<&'a Reasoning>,
    /// Whether no user has said anything since.
    pub(crate) current: bool,
    /// The text; none if it is blank, which providers refuse.
    pub(crate) text: Option<String>,
    pub(crate) calls: Vec<Call<'a>>,
}

/// A part of what the model thought and said.
pub(crate) enum Word<'a> {
    Thought(&'a Reasoning),
    Said(&'a str),
}

impl Said<'_> {
    /// Whether the model that is asked now thought before it said or called this.
    pub(crate) fn has_thoughts(&self) -> bool {
        self.all_thoughts().next().is_some()
    }

    /// What it thought and said before its calls, in the order in which it did.
    pub(crate) fn words(&self) -> Vec<Word<'_>> {
        let text = self.text.as_deref().unwrap_or_default();
        let mut words = Vec::with_capacity(self.thoughts.len() + 1);
        let mut said = 0;
        for &thought in &self.thoughts {
            // Somebody may have changed the text since.
            if let Some(before) = text.get(said..thought.offset) {
                words.push(Word::Said(before));
                said = thought.offset;
            }
            words.push(Word::Thought(thought));
        }
        words.push(Word::Said(&text[said..]));
        // Providers refuse blank texts.
        words.retain(|word| !matches!(word, Word::Said(text) if text.trim().is_empty()));
        words
    }

    /// What it thought before it said anything, and before each call.
    pub(crate) fn all_thoughts(&self) -> impl Iterator<Item = &Reasoning> {
        let of_calls = self.calls.iter().flat_map(|call| &call.thoughts);
        self.thoughts.iter().chain(of_calls).copied()
    }
}

/// A call, with its result.
pub(crate) struct Call<'a> {
    /// What led to it, if it was the model that is asked now.
    pub(crate) thoughts: Vec<&'a Reasoning>,
    /// Different from the ids of all other calls of the conversation.
    pub(crate) id: String,
    pub(crate) name: &'a str,
    /// An object, also where the model gave none.
    pub(crate) args: Cow<'a, Value>,
    pub(crate) result: Cow<'a, Content>,
    pub(crate) failed: bool,
}

impl<'a> Conversation<'a> {
    /// The conversation of a request, for this maker of thoughts.
    pub(crate) fn new(request: &'a ChatRequest, maker: &str) -> Self {
        let list: Vec<&Message> = request.messages.iter().collect();
        let mut conversation = Self { system: Vec::new(), turns: Vec::with_capacity(list.len()) };
        let mut results = Results { list: &list, taken: vec![false; list.len()], ids: HashSet::new() };
        for (place, message) in list.iter().enumerate() {
            match &message.body {
                Body::System { content } => conversation.instruct(content.text()),
                Body::User { content } => conversation.turns.push(Turn::User(sendable(content))),
                Body::Assistant { content, calls, reasoning, .. } => {
                    let own: Vec<&Reasoning> = reasoning.iter().filter(|thought| thought.maker == maker).collect();
                    let calls = calls.iter().map(|call| results.complete(place, call, &own)).collect();
                    let thoughts = own.into_iter().filter(|thought| thought.call.is_none()).collect();
                    conversation.say(content.text(), calls, thoughts);
                }
                Body::Tool { content, .. } if !results.taken[place] => {
                    let told = format!("The result of a tool call: {}", content.text());
                    conversation.turns.push(Turn::User(Cow::Owned(Content::Text(told))));
                }
                _ => {}
            }
        }
        let turns = conversation.turns.iter_mut().rev().take_while(|turn| matches!(turn, Turn::Model(_)));
        for turn in turns {
            if let Turn::Model(said) = turn {
                said.current = true;
            }
        }
        conversation
    }

    /// Whether it begins with what a user says, which some providers want.
    pub(crate) fn begins_with_user(&self) -> bool {
        matches!(self.turns.first(), Some(Turn::User(_)))
    }

    fn instruct(&mut self, text: String) {
        if !text.trim().is_empty() && !self.system.contains(&text) {
            self.system.push(text);
        }
    }

    /// Adds a message of the model. Providers refuse an empty message unless it has a provider-specific part.
    fn say(&mut self, text: String, calls: Vec<Call<'a>>, thoughts: Vec<&'a Reasoning>) {
        let text = Some(text).filter(|text| !text.trim().is_empty());
        let has_opaque = || thoughts.iter().any(|thought| OPAQUE.iter().any(|part| thought.data.get(part).is_some()));
        if text.is_some() || !calls.is_empty() || has_opaque() {
            self.turns.push(Turn::Model(Said { thoughts, current: false, text, calls }));
        }
    }
}

/// Finds the results of calls, and ids that nothing else has.
struct Results<'a, 'l> {
    list: &'l [&'a Message],
    taken: Vec<bool>,
    ids: HashSet<String>,
}

impl<'a> Results<'a, '_> {
    /// The call with the first result behind it that no other call has.
    fn complete(&mut self, place: usize, call: &'a ToolCall, thoughts: &[&'a Reasoning]) -> Call<'a> {
        let answers = |at: &usize| !self.taken[*at] && self.list[*at].tool_call_id() == Some(&*call.id);
        let result = (place + 1..self.list.len()).find(answers);
        let (result, failed) = match result.map(|at| (at, &self.list[at].body)) {
            Some((at, Body::Tool { content, status, .. })) => {
                self.taken[at] = true;
                (sendable(content), *status == ToolStatus::Error)
            }
            _ => (Cow::Owned(Content::Text(OPEN.to_owned())), false),
        };
        let id = self.own_id(&call.id);
        let name = if is_name(&call.name) { &*call.name } else { UNKNOWN };
        let args = if call.args.is_object() { Cow::Borrowed(&call.args) } else { Cow::Owned(serde_json::json!({})) };
        let thoughts = thoughts.iter().copied().filter(|thought| thought.call.as_ref() == Some(&call.id)).collect();
        Call { thoughts, id, name, args, result, failed }
    }

    fn own_id(&mut self, id: &str) -> String {
        let mut own = if is_name(id) { id.to_owned() } else { String::new() };
        let mut number = self.ids.len();
        while own.is_empty() || self.ids.contains(&own) {
            own = format!("call_{number}");
            number += 1;
        }
        self.ids.insert(own.clone());
        own
    }
}

/// Whether all providers take this as a name or an id.
fn is_name(text: &str) -> bool {
    let fits = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'-';
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(fits)
}
