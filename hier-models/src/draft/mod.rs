//! An answer while it is read: the same for whole answers and for streams, in all dialects.

mod answer;
mod call;
mod tags;
mod thought;

use std::collections::{HashSet, VecDeque};

use hier_agents::{ChatChunk, ChatRequest, FinishReason, Message, Usage};
use serde_json::{Value, json};

use call::{Args, CallDraft};
use tags::Tags;
use thought::{Place, Thought};

pub(crate) use call::CallPiece;

/// The most calls of an answer, and the most thoughts: many times more than models have, and soon looked through.
const MOST: usize = 1_000;

/// What has been read of an answer.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Who makes the answer, and can read its opaque parts later.
    maker: String,
    text: String,
    thoughts: Vec<Thought>,
    calls: Vec<CallDraft>,
    /// The ids of all calls of the conversation, and of those of the answer that have begun.
    known: HashSet<String>,
    /// The pieces that have not been handed over yet; none if the answer is read as a whole.
    pieces: Option<VecDeque<ChatChunk>>,
    usage: Option<Usage>,
    pub(crate) model: Option<String>,
    pub(crate) finish: Option<FinishReason>,
    /// The server said that nothing more comes.
    pub(crate) ended: bool,
    /// Why the answer cannot be used, though it can be read.
    mistake: Option<String>,
    /// The model refused, though the provider reports an ordinary end.
    refused: bool,
    /// The provider's comment on the end of the answer.
    remark: Option<String>,
    tags: Tags,
    /// Nothing is outstanding but the end of the stream.
    pub(crate) complete: bool,
    /// The number of the first thought of the current response: an answer that pauses comes in several.
    base: u64,
    pauses: u32,
    /// The cost of the earlier responses.
    spent: Usage,
    /// Start of the current text block, and its sources.
    block: usize,
    cited: Vec<Value>,
}

/// The finish reason with which a provider pauses an answer that continues with the next request.
const PAUSED: &str = "pause_turn";
/// The most pauses of one answer.
const MOST_PAUSES: u32 = 16;
/// What a server says that an answer cost, as far as it says so.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) cache_write: Option<u64>,
    pub(crate) reasoning: Option<u64>,
}

impl Draft {
    /// The draft of this maker's answer to a request.
    pub(crate) fn new(request: &ChatRequest, maker: String, streamed: bool) -> Self {
        let earlier = request.messages.iter().flat_map(Message::tool_calls);
        let known = earlier.map(|call| call.id.clone()).collect();
        Self { maker, known, pieces: streamed.then(VecDeque::new), ..Self::default() }
    }

    /// The next piece that has not been handed over yet.
    pub(crate) fn fresh(&mut self) -> Option<ChatChunk> {
        self.pieces.as_mut()?.pop_front()
    }

    fn tell(&mut self, piece: impl FnOnce() -> ChatChunk) {
        if let Some(pieces) = &mut self.pieces {
            pieces.push_back(piece());
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.place_thoughts(Place::Message);
        self.text.push_str(text);
        self.tell(|| ChatChunk::Text(text.to_owned()));
    }

    /// Adds text in which the model may think between tags before it answers.
    pub(crate) fn say_tagged(&mut self, number: u64, text: &str) {
        let (thought, said) = self.tags.split(text);
        self.think(number, &thought);
        self.say(&said);
    }

    /// Adds the words by which the model refuses.
    pub(crate) fn refuse(&mut self, text: &str) {
        self.refused |= !text.is_empty();
        self.say(text);
    }

    /// Keeps the provider's comment on the end of the answer.
    pub(crate) fn remark(&mut self, text: &str) {
        self.remark = Some(text.to_owned()).filter(|text| !text.is_empty()).or(self.remark.take());
    }

    /// Ends the reading: what was held back is text or thought.
    pub(crate) fn close(&mut self) {
        let (thought, said) = self.tags.end();
        self.think(0, &thought);
        self.say(&said);
        if self.refused {
            self.finish = Some(FinishReason::ContentFilter);
        }
    }

    /// Returns true if the provider paused the answer: it continues when the partial answer is sent back.
    pub(crate) fn is_paused(&self) -> bool {
        let is_paused = matches!(&self.finish, Some(FinishReason::Other(reason)) if reason == PAUSED);
        is_paused && self.calls.is_empty() && !self.thoughts.is_empty() && self.pauses < MOST_PAUSES
    }

    /// Continues after a pause. Returns the partial answer.
    pub(crate) fn go_on(&mut self) -> Message {
        self.pauses += 1;
        (self.finish, self.ended, self.complete) = (None, false, false);
        self.spent += self.usage.take().unwrap_or_default();
        let last = self.thoughts.iter().filter_map(|thought| thought.number).max();
        self.base = last.map_or(0, |last| last.saturating_add(1));
        let thoughts = self.thoughts.clone().into_iter();
        let reasoning = thoughts.filter_map(|thought| thought.reasoning(&self.maker, &[]));
        Message::assistant(self.text.clone()).with_reasoning(reasoning.collect::<Vec<_>>())
    }

    /// Adds to what the model thought: to the thought with this number.
    pub(crate) fn think(&mut self, number: u64, text: &str) {
        if text.is_empty() {
            return;
        }
        self.thought(number).text.push_str(text);
        self.tell(|| ChatChunk::Reasoning(text.to_owned()));
    }

    /// Keeps fields that the provider needs to get back with the thought of this number. A field that is there is
    /// replaced: signatures come whole.
    pub(crate) fn keep(&mut self, number: u64, fields: Value) {
        self.thought(number).keep(fields);
    }

    /// What is kept of the thought with this number.
    pub(crate) fn kept(&mut self, number: u64) -> &mut Value {
        &mut self.thought(number).data
    }

    /// Returns the data of the thought with this number, if it exists.
    pub(crate) fn known(&mut self, number: u64) -> Option<&mut Value> {
        let number = Some(self.base.saturating_add(number));
        self.thoughts.iter_mut().find(|thought| thought.number == number).map(|thought| &mut thought.data)
    }

    /// Begins a block of text.
    pub(crate) fn begin_text(&mut self) {
        self.block = self.text.len();
    }

    /// Adds a source of the block of text.
    pub(crate) fn cite(&mut self, source: &Value) {
        self.cited.push(source.clone());
    }

    /// Ends a block of text, and keeps its sources under this number.
    pub(crate) fn end_text(&mut self, number: u64) {
        let cited = std::mem::take(&mut self.cited);
        if !cited.is_empty() {
            let length = self.text.len().saturating_sub(self.block);
            self.keep(number, json!({ "citations": cited, "length": length }));
        }
    }

    /// Returns true if the answer has text or a call.
    pub(crate) fn has_begun(&self) -> bool {
        !self.text.is_empty() || !self.calls.is_empty()
    }

    /// Keeps a part of the answer that only the provider can read.
    pub(crate) fn keep_opaque(&mut self, data: Value) {
        let last = self.thoughts.iter().filter_map(|thought| thought.number).max();
        let number = last.map_or(1, |last| last.saturating_add(1).max(1));
        self.thought_at(number).data = data;
    }

    /// Keeps fields that the provider needs to get back with this call.
    pub(crate) fn keep_of_call(&mut self, call: usize, fields: Value) {
        let known = self.thoughts.iter_mut().find(|thought| thought.is_mark_of(call));
        match known {
            Some(thought) => thought.keep(fields),
            None => self.thoughts.push(Thought::mark(call, fields)),
        }
    }

    fn thought(&mut self, number: u64) -> &mut Thought {
        self.thought_at(self.base.saturating_add(number))
    }

    fn thought_at(&mut self, number: u64) -> &mut Thought {
        let place = self.thoughts.iter().position(|thought| thought.number == Some(number));
        let place = place.unwrap_or(self.thoughts.len()).min(MOST);
        if place == self.thoughts.len() {
            self.thoughts.push(Thought::new(number, self.text.len()));
        }
        if place == MOST {
            self.mistake = Some(format!("it has more than {MOST} thoughts"));
        }
        &mut self.thoughts[place]
    }

    /// What was thought until now led to this.
    fn place_thoughts(&mut self, place: Place) {
        let open = self.thoughts.iter_mut().rev().take_while(|thought| thought.place == Place::Open);
        open.for_each(|thought| thought.place = place);
    }

    /// Adds a call whose arguments are there as a value. Gives its place.
    pub(crate) fn call(&mut self, index: Option<u64>, id: &str, name: &str, args: Value) -> usize {
        let place = self.calls.len();
        if place == MOST {
            self.mistake = Some(format!("it has more than {MOST} calls"));
            return place - 1;
        }
        self.place_thoughts(Place::Call(place));
        self.calls.push(CallDraft::new(index, id, name));
        self.begin(place);
        match args {
            Value::String(text) => self.add_arguments(place, &text),
            Value::Null => {}
            value => {
                if let Some(own) = self.calls[place].own.clone() {
                    self.tell(|| ChatChunk::call_arguments(own, value.to_string()));
                }
                self.calls[place].args = Args::Value(value);
            }
        }
        place
    }

    /// Adds a piece of a call: to the call that it belongs to, or as the beginning of another. Gives the call's place.
    pub(crate) fn piece(&mut self, piece: &CallPiece<'_>) -> usize {
        let Some(place) = call::place(&self.calls, piece) else {
            return self.call(piece.index, piece.id, piece.name, Value::String(piece.args.to_owned()));
        };
        let call = &mut self.calls[place];
        if call.id.is_empty() {
            piece.id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            piece.name.clone_into(&mut call.name);
        }
        self.begin(place);
        self.add_arguments(place, piece.args);
        place
    }

    /// Tells that a call begins, as soon as its name is known, with what there is of its arguments.
    fn begin(&mut self, place: usize) {
        let call = &mut self.calls[place];
        if call.own.is_some() || call.name.is_empty() {
            return;
        }
        let own = call.settle(&mut self.known).to_owned();
        let (name, args) = (call.name.clone(), call.args.text().to_owned());
        self.tell(|| ChatChunk::call_started(&own, name));
        if !args.is_empty() {
            self.tell(|| ChatChunk::call_arguments(own, args));
        }
    }

    /// Adds text to the arguments of a call, and begins other calls if several objects came as one.
    fn add_arguments(&mut self, mut place: usize, mut text: &str) {
        while !text.is_empty() {
            let call = &mut self.calls[place];
            let Some((own, rest)) = call.add(text) else {
                self.mistake = Some(format!("it has the arguments of the call of `{}` twice", call.name));
                return;
            };
            if let Some(id) = call.own.clone().filter(|_| !own.is_empty()) {
                self.tell(|| ChatChunk::call_arguments(id, own));
            }
            text = rest;
            if !text.is_empty() {
                let call = &self.calls[place];
                let (index, name) = (call.index, call.name.clone());
                let next = self.call(index, "", &name, Value::Null);
                if next == place {
                    return;
                }
                place = next;
            }
        }
    }

    /// Gives a call its arguments, if they did not come in pieces.
    pub(crate) fn complete_arguments(&mut self, index: u64, text: &str) {
        let place = self.calls.iter().position(|call| call.index == Some(index));
        if let Some(place) = place.filter(|place| self.calls[*place].args.text().is_empty()) {
            self.add_arguments(place, text);
        }
    }

    /// Whether a call with this number has begun.
    pub(crate) fn has_call(&self, index: u64) -> bool {
        self.calls.iter().any(|call| call.index == Some(index))
    }

    /// Whether the answer calls anything.
    pub(crate) fn calls_tools(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Counts tokens. Providers tell them in parts, and again.
    pub(crate) fn count(&mut self, tokens: Tokens) {
        if tokens.input.unwrap_or(0) == 0 && tokens.output.unwrap_or(0) == 0 {
            // No prompt is empty: this provider does not count.
            return;
        }
        let usage = self.usage.get_or_insert_default();
        let counts = [
            (&mut usage.input_tokens, tokens.input),
            (&mut usage.output_tokens, tokens.output),
            (&mut usage.cached_tokens, tokens.cached),
            (&mut usage.cache_write_tokens, tokens.cache_write),
            (&mut usage.reasoning_tokens, tokens.reasoning),
        ];
        for (counted, told) in counts {
            *counted = told.unwrap_or(*counted);
        }
    }

    /// Returns true if the server has said why the answer ends. More may follow: some say it with each part.
    pub(crate) fn is_finished(&self) -> bool {
        self.ended || self.finish.is_some()
    }
}
