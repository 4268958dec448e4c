//! An answer while it is read: the same for whole answers and for streams, in all dialects.

mod call;
mod thought;

use std::collections::{HashSet, VecDeque};

use hier_core::agent::{ChatChunk, ChatRequest, ChatResponse, FinishReason, Message, Reasoning, ToolCall, Usage};
use serde_json::Value;

use crate::error::Failure;
use call::{Args, CallDraft};
use thought::{Place, Thought};

pub(crate) use call::CallPiece;

/// The longest piece of an answer that an error repeats, in characters.
const SHOWN: usize = 200;

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
}

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

    /// Keeps fields that the provider needs to get back with this call.
    pub(crate) fn keep_of_call(&mut self, call: usize, fields: Value) {
        let known = self.thoughts.iter_mut().find(|thought| thought.is_mark_of(call));
        match known {
            Some(thought) => thought.keep(fields),
            None => self.thoughts.push(Thought::mark(call, fields)),
        }
    }

    fn thought(&mut self, number: u64) -> &mut Thought {
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

    fn add_arguments(&mut self, place: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        let call = &mut self.calls[place];
        match &mut call.args {
            Args::Text(args) => args.push_str(text),
            Args::Value(_) => {
                self.mistake = Some(format!("it has the arguments of the call of `{}` twice", call.name));
                return;
            }
        }
        if let Some(own) = call.own.clone() {
            self.tell(|| ChatChunk::call_arguments(own, text));
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

    /// Whether the server has said why the answer ends.
    pub(crate) fn is_finished(&self) -> bool {
        self.ended || self.finish.is_some()
    }

    /// The answer to this request.
    pub(crate) fn answer(mut self, request: &ChatRequest) -> Result<ChatResponse, Failure> {
        self.check()?;
        let (calls, reasoning) = self.settle();
        if request.output.is_some() && calls.is_empty() {
            self.check_shape()?;
        }
        let message = Message::calls(self.text, calls).with_reasoning(reasoning);
        let message = match self.usage {
            Some(usage) => message.with_usage(usage),
            None => message,
        };
        let response = ChatResponse::new(message);
        let response = match self.model {
            Some(model) => response.with_model(model),
            None => response,
        };
        Ok(match self.finish {
            Some(finish) => response.with_finish(finish),
            None => response,
        })
    }

    /// The calls, each with an id that no other call of the conversation has, and what was thought, with the ids of the
    /// calls that it led to. Where the answer was cut off, no call can be made: the arguments are text, which tools refuse
    /// in words for the model.
    fn settle(&mut self) -> (Vec<ToolCall>, Vec<Reasoning>) {
        let mut drafts = std::mem::take(&mut self.calls);
        let ids: Vec<String> = drafts.iter_mut().map(|call| call.settle(&mut self.known).to_owned()).collect();
        let thoughts = std::mem::take(&mut self.thoughts).into_iter();
        let reasoning = thoughts.filter_map(|thought| thought.reasoning(&self.maker, &ids)).collect();
        // In the order of their numbers where they have some, else as they came.
        drafts.sort_by_key(|call| call.index);
        let cut = self.finish == Some(FinishReason::Length);
        (drafts.into_iter().map(|call| call.made(cut)).collect(), reasoning)
    }

    /// Refuses an answer that says nothing, unless the model had nothing to say.
    fn check(&self) -> Result<(), Failure> {
        if let Some(mistake) = &self.mistake {
            return Err(Failure::bad_answer(mistake));
        }
        if !self.text.is_empty() || !self.calls.is_empty() {
            return Ok(());
        }
        let why = match &self.finish {
            Some(FinishReason::Stop) => return Ok(()),
            Some(FinishReason::Length) => "it reached its limit of tokens before it said anything".to_owned(),
            Some(FinishReason::ContentFilter) => "the provider's filter took it away".to_owned(),
            Some(reason) => format!("it has neither text nor a call, and ended with `{reason}`"),
            None => "it has neither text nor a call".to_owned(),
        };
        Err(Failure::bad_answer(why))
    }

    fn check_shape(&self) -> Result<(), Failure> {
        let Err(error) = serde_json::from_str::<Value>(&self.text) else { return Ok(()) };
        let shown: String = self.text.chars().take(SHOWN).collect();
        let tail = if shown.len() < self.text.len() { "…" } else { "" };
        let why = match self.finish {
            Some(FinishReason::Length) => "it was cut off by its limit of tokens".to_owned(),
            _ => error.to_string(),
        };
        Err(Failure::bad_answer(format!("it was to be JSON of a given shape and is none ({why}): {shown}{tail}")))
    }
}
