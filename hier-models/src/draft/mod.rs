//! The draft of an answer, shared by all dialects, for complete and for streamed answers.

mod answer;
mod call;
mod citation;
mod think_tags;
mod thought;

use std::collections::{HashSet, VecDeque};

use hier_agents::{ChatChunk, ChatRequest, FinishReason, Message, Usage, Usd};
use serde_json::Value;

use call::{Args, CallDraft};
use citation::CitationDraft;
use think_tags::ThinkTags;
use thought::{Thought, ThoughtTarget};

pub(crate) use call::CallDelta;
pub(crate) use citation::Passage;

/// The maximum number of calls, and of thoughts, of an answer.
const MOST: usize = 1_000;

/// The parts of an answer that have been read.
#[derive(Debug, Default)]
pub(crate) struct AnswerDraft {
    /// The maker of the thoughts. Only this maker can read the opaque parts of the thoughts.
    maker: String,
    text: String,
    thoughts: Vec<Thought>,
    calls: Vec<CallDraft>,
    /// The ids of all calls of the conversation and of this answer.
    known_ids: HashSet<String>,
    /// The chunks that the stream has not returned yet. `None` if the answer is not streamed.
    chunks: Option<VecDeque<ChatChunk>>,
    usage: Option<Usage>,
    pub(crate) model: Option<String>,
    pub(crate) finish: Option<FinishReason>,
    /// True once the answer has ended and no more data is read.
    pub(crate) ended: bool,
    /// The reason why the answer is unusable though it was readable.
    defect: Option<String>,
    /// True if the model refused, even if the provider reports an ordinary end.
    refused: bool,
    /// The provider's comment on the end of the answer.
    comment: Option<String>,
    think_tags: ThinkTags,
    /// True once all data has arrived and only the end of the stream is outstanding.
    pub(crate) complete: bool,
    /// The number of the first thought of the current response. An answer with pauses comes in several responses.
    first_number: u64,
    pauses: u32,
    /// The usage of the earlier responses.
    earlier_usage: Usage,
    /// The start of the current text block, in bytes of the text. `sources` contains the sources of this block.
    block_start: usize,
    sources: Vec<Value>,
    citations: Vec<CitationDraft>,
}

/// The finish reason with which a provider pauses an answer that continues with the next request.
const PAUSED: &str = "pause_turn";
/// The maximum number of pauses of an answer.
const MOST_PAUSES: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenCounts {
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) cached: Option<u64>,
    pub(crate) cache_write: Option<u64>,
    pub(crate) reasoning: Option<u64>,
}

impl AnswerDraft {
    pub(crate) fn new(request: &ChatRequest, maker: String, streamed: bool) -> Self {
        let earlier = request.messages.iter().flat_map(Message::tool_calls);
        let known_ids = earlier.map(|call| call.id.clone()).collect();
        Self { maker, known_ids, chunks: streamed.then(VecDeque::new), ..Self::default() }
    }
    pub(crate) fn set_model(&mut self, model: &str) {
        if !model.is_empty() {
            self.model = Some(model.to_owned());
        }
    }

    pub(crate) fn next_chunk(&mut self) -> Option<ChatChunk> {
        self.chunks.as_mut()?.pop_front()
    }

    fn emit(&mut self, chunk: impl FnOnce() -> ChatChunk) {
        if let Some(chunks) = &mut self.chunks {
            chunks.push_back(chunk());
        }
    }

    pub(crate) fn add_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.attach_thoughts(ThoughtTarget::Message);
        self.text.push_str(text);
        self.emit(|| ChatChunk::Text(text.to_owned()));
    }

    /// Adds text that may start with thoughts between tags.
    pub(crate) fn add_tagged_text(&mut self, number: u64, text: &str) {
        let (thought, answer) = self.think_tags.split(text);
        self.add_thought(number, &thought);
        self.add_text(&answer);
    }

    /// Adds a text with which the model refuses.
    pub(crate) fn add_refusal(&mut self, text: &str) {
        self.refused |= !text.is_empty();
        self.add_text(text);
    }

    pub(crate) fn set_comment(&mut self, text: &str) {
        self.comment = Some(text.to_owned()).filter(|text| !text.is_empty()).or(self.comment.take());
    }

    /// Ends the reading, and adds the text that was held back as a possible tag.
    pub(crate) fn close(&mut self) {
        let (thought, answer) = self.think_tags.end();
        self.add_thought(0, &thought);
        self.add_text(&answer);
        if self.refused {
            self.finish = Some(FinishReason::ContentFilter);
        }
    }

    /// Returns true if the provider paused the answer. It continues when the partial answer is sent back.
    pub(crate) fn is_paused(&self) -> bool {
        let is_paused = matches!(&self.finish, Some(FinishReason::Other(reason)) if reason == PAUSED);
        is_paused && self.calls.is_empty() && !self.thoughts.is_empty() && self.pauses < MOST_PAUSES
    }

    /// Continues after a pause. Returns the partial answer.
    pub(crate) fn resume(&mut self) -> Message {
        self.pauses += 1;
        (self.finish, self.ended, self.complete) = (None, false, false);
        self.earlier_usage += self.usage.take().unwrap_or_default();
        let last = self.thoughts.iter().filter_map(|thought| thought.number).max();
        self.first_number = last.map_or(0, |last| last.saturating_add(1));
        let thoughts = self.thoughts.clone().into_iter();
        let reasoning = thoughts.filter_map(|thought| thought.reasoning(&self.maker, &[]));
        Message::assistant(self.text.clone()).with_reasoning(reasoning.collect::<Vec<_>>())
    }

    pub(crate) fn add_thought(&mut self, number: u64, text: &str) {
        if text.is_empty() {
            return;
        }
        self.thought(number).text.push_str(text);
        self.emit(|| ChatChunk::Reasoning(text.to_owned()));
    }

    /// Keeps fields that the provider must receive again with this thought. A field replaces an earlier field of the
    /// same name, because signatures arrive complete.
    pub(crate) fn keep_fields(&mut self, number: u64, fields: Value) {
        self.thought(number).keep(fields);
    }

    /// Returns the data of the thought with this number. Creates the thought if necessary.
    pub(crate) fn thought_data(&mut self, number: u64) -> &mut Value {
        &mut self.thought(number).data
    }

    pub(crate) fn existing_thought_data(&mut self, number: u64) -> Option<&mut Value> {
        let number = Some(self.first_number.saturating_add(number));
        self.thoughts.iter_mut().find(|thought| thought.number == number).map(|thought| &mut thought.data)
    }

    pub(crate) fn has_begun(&self) -> bool {
        !self.text.is_empty() || !self.calls.is_empty()
    }

    /// Keeps a part of the answer that only the provider can read.
    pub(crate) fn keep_opaque(&mut self, data: Value) {
        let last = self.thoughts.iter().filter_map(|thought| thought.number).max();
        let number = last.map_or(1, |last| last.saturating_add(1).max(1));
        self.thought_at(number).data = data;
    }

    pub(crate) fn keep_call_fields(&mut self, call: usize, fields: Value) {
        let known = self.thoughts.iter_mut().find(|thought| thought.is_mark_of(call));
        match known {
            Some(thought) => thought.keep(fields),
            None => self.thoughts.push(Thought::mark(call, fields)),
        }
    }

    /// Keeps data that belongs to the whole message.
    pub(crate) fn keep_message_fields(&mut self, fields: Value) {
        match self.thoughts.iter_mut().find(|thought| thought.is_mark_of_message()) {
            Some(thought) => thought.keep(fields),
            None => self.thoughts.push(Thought::message_mark(fields)),
        }
    }

    fn thought(&mut self, number: u64) -> &mut Thought {
        self.thought_at(self.first_number.saturating_add(number))
    }

    fn thought_at(&mut self, number: u64) -> &mut Thought {
        let place = self.thoughts.iter().position(|thought| thought.number == Some(number));
        let place = place.unwrap_or(self.thoughts.len()).min(MOST);
        if place == self.thoughts.len() {
            self.thoughts.push(Thought::new(number, self.text.len()));
        }
        if place == MOST {
            self.defect = Some(format!("the reply has more than {MOST} parts of reasoning"));
        }
        &mut self.thoughts[place]
    }

    /// Attaches the thoughts after which nothing has arrived yet to this target.
    fn attach_thoughts(&mut self, target: ThoughtTarget) {
        let open = self.thoughts.iter_mut().rev().take_while(|thought| thought.target == ThoughtTarget::Open);
        open.for_each(|thought| thought.target = target);
    }

    /// Adds a call whose arguments are complete. Returns its index.
    pub(crate) fn add_call(&mut self, index: Option<u64>, id: &str, name: &str, args: Value) -> usize {
        let place = self.calls.len();
        if place == MOST {
            self.defect = Some(format!("the reply has more than {MOST} tool calls"));
            return place - 1;
        }
        self.attach_thoughts(ThoughtTarget::Call(place));
        self.calls.push(CallDraft::new(index, id, name));
        self.announce_call(place);
        match args {
            Value::String(text) => self.add_arguments(place, &text),
            Value::Null => {}
            value => {
                if let Some(own) = self.calls[place].unique_id.clone() {
                    self.emit(|| ChatChunk::call_arguments(own, value.to_string()));
                }
                self.calls[place].args = Args::Value(value);
            }
        }
        place
    }

    /// Adds a delta to the call that it continues, or starts another call. Returns the index of the call.
    pub(crate) fn add_call_delta(&mut self, delta: &CallDelta<'_>) -> usize {
        let Some(place) = call::continued_call(&self.calls, delta) else {
            return self.add_call(delta.index, delta.id, delta.name, Value::String(delta.args.to_owned()));
        };
        let call = &mut self.calls[place];
        if call.id.is_empty() {
            delta.id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            delta.name.clone_into(&mut call.name);
        }
        self.announce_call(place);
        self.add_arguments(place, delta.args);
        place
    }

    /// Streams the start of a call as soon as its name is known, with the arguments so far.
    fn announce_call(&mut self, place: usize) {
        let call = &mut self.calls[place];
        if call.unique_id.is_some() || call.name.is_empty() {
            return;
        }
        let own = call.assign_id(&mut self.known_ids).to_owned();
        let (name, args) = (call.name.clone(), call.args.text().to_owned());
        self.emit(|| ChatChunk::call_started(&own, name));
        if !args.is_empty() {
            self.emit(|| ChatChunk::call_arguments(own, args));
        }
    }

    /// Adds text to the arguments of a call. If the text has several objects, each further object starts a call.
    fn add_arguments(&mut self, mut place: usize, mut text: &str) {
        while !text.is_empty() {
            let call = &mut self.calls[place];
            let Some((own, rest)) = call.add(text) else {
                self.defect = Some(format!("the reply contains the arguments of the call of `{}` twice", call.name));
                return;
            };
            if let Some(id) = call.unique_id.clone().filter(|_| !own.is_empty()) {
                self.emit(|| ChatChunk::call_arguments(id, own));
            }
            text = rest;
            if !text.is_empty() {
                let call = &self.calls[place];
                let (index, name) = (call.index, call.name.clone());
                let next = self.add_call(index, "", &name, Value::Null);
                if next == place {
                    return;
                }
                place = next;
            }
        }
    }

    /// Sets the arguments of a call that arrived without deltas.
    pub(crate) fn complete_arguments(&mut self, index: u64, text: &str) {
        let place = self.calls.iter().position(|call| call.index == Some(index));
        if let Some(place) = place.filter(|place| self.calls[*place].args.text().is_empty()) {
            self.add_arguments(place, text);
        }
    }

    pub(crate) fn has_call(&self, index: u64) -> bool {
        self.calls.iter().any(|call| call.index == Some(index))
    }

    pub(crate) fn calls_tools(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Updates the token counts. Providers report them in parts and repeatedly.
    pub(crate) fn set_usage(&mut self, tokens: TokenCounts) {
        if tokens.input.unwrap_or(0) == 0 && tokens.output.unwrap_or(0) == 0 {
            // A prompt is never empty, so this provider does not count tokens.
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
        for (counted, reported) in counts {
            *counted = reported.unwrap_or(*counted);
        }
    }

    pub(crate) fn set_cost(&mut self, cost: Usd) {
        self.usage.get_or_insert_default().cost = Some(cost);
    }

    /// Returns true once the server has sent a finish reason. More chunks may follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.ended || self.finish.is_some()
    }
}
