//! An answer while it is read: the same for whole answers and for streams, in all dialects.

use std::collections::HashSet;

use hier_core::agent::{ChatRequest, ChatResponse, FinishReason, Message, ToolCall, Usage};
use serde_json::{Value, json};

use crate::error::Failure;

/// The longest piece of an answer that an error repeats, in characters.
const SHOWN: usize = 200;

/// What has been read of an answer.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    text: String,
    /// How much of the text has been handed over, in bytes.
    told: usize,
    calls: Vec<CallDraft>,
    usage: Option<Usage>,
    pub(crate) model: Option<String>,
    pub(crate) finish: Option<FinishReason>,
    /// The server said that nothing more comes.
    pub(crate) ended: bool,
}

/// A call while it is read.
#[derive(Debug)]
struct CallDraft {
    /// Its number among the calls of the answer, where the server gives one.
    index: Option<u64>,
    id: String,
    name: String,
    args: Args,
}

#[derive(Debug)]
enum Args {
    /// As JSON text, which comes in pieces.
    Text(String),
    Value(Value),
}

/// A piece of a call.
#[derive(Debug, Default)]
pub(crate) struct CallPiece<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) args: &'a str,
}

impl Draft {
    pub(crate) fn say(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The text that has not been handed over yet.
    pub(crate) fn fresh(&mut self) -> Option<String> {
        let fresh = self.text.get(self.told..).filter(|fresh| !fresh.is_empty())?.to_owned();
        self.told = self.text.len();
        Some(fresh)
    }

    /// Adds a call whose arguments are there as a value.
    pub(crate) fn call(&mut self, index: Option<u64>, id: &str, name: &str, args: Value) {
        let args = match args {
            Value::String(text) => Args::Text(text),
            value => Args::Value(value),
        };
        self.calls.push(CallDraft { index, id: id.to_owned(), name: name.to_owned(), args });
    }

    /// Adds a piece of a call: to the call that it belongs to, or as the beginning of another.
    pub(crate) fn piece(&mut self, piece: &CallPiece<'_>) {
        let Some(place) = self.place(piece) else {
            return self.call(piece.index, piece.id, piece.name, Value::String(piece.args.to_owned()));
        };
        let call = &mut self.calls[place];
        if call.id.is_empty() {
            piece.id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            piece.name.clone_into(&mut call.name);
        }
        match &mut call.args {
            Args::Text(text) => text.push_str(piece.args),
            // What the call began with was only a place holder.
            args if !piece.args.is_empty() => *args = Args::Text(piece.args.to_owned()),
            Args::Value(_) => {}
        }
    }

    /// The call that a piece belongs to: by its number and id; without a number by its id, else the last one.
    fn place(&self, piece: &CallPiece<'_>) -> Option<usize> {
        let other_id = |call: &CallDraft| !piece.id.is_empty() && !call.id.is_empty() && call.id != piece.id;
        if piece.index.is_some() {
            let place = self.calls.iter().rposition(|call| call.index == piece.index)?;
            return Some(place).filter(|place| !other_id(&self.calls[*place]));
        }
        if !piece.id.is_empty() {
            return self.calls.iter().rposition(|call| call.id == piece.id);
        }
        let last = self.calls.last()?;
        // A second name is that of a second call.
        (piece.name.is_empty() || last.name.is_empty()).then(|| self.calls.len() - 1)
    }

    /// Whether a call with this number has begun.
    pub(crate) fn has_call(&self, index: u64) -> bool {
        self.calls.iter().any(|call| call.index == Some(index))
    }

    /// Counts tokens. Providers tell them in parts, and again.
    pub(crate) fn count(&mut self, input: Option<u64>, output: Option<u64>) {
        if input.unwrap_or(0) == 0 && output.unwrap_or(0) == 0 {
            // No prompt is empty: this provider does not count.
            return;
        }
        let usage = self.usage.get_or_insert_default();
        usage.input_tokens = input.unwrap_or(usage.input_tokens);
        usage.output_tokens = output.unwrap_or(usage.output_tokens);
    }

    /// Whether the server has said why the answer ends.
    pub(crate) fn is_finished(&self) -> bool {
        self.ended || self.finish.is_some()
    }

    /// The answer to this request.
    pub(crate) fn answer(mut self, request: &ChatRequest) -> Result<ChatResponse, Failure> {
        // In the order of their numbers where they have some, else as they came.
        self.calls.sort_by_key(|call| call.index);
        self.check()?;
        let calls = self.settled_calls(request);
        if request.output.is_some() && calls.is_empty() {
            self.check_shape()?;
        }
        let message = Message::calls(self.text, calls);
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

    /// Refuses an answer that says nothing, unless the model had nothing to say.
    fn check(&self) -> Result<(), Failure> {
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

    /// The calls, each with an id that no other call of the conversation has. Where the answer was cut off, none of them
    /// can be made: their arguments are text, which tools refuse in words for the model.
    fn settled_calls(&mut self, request: &ChatRequest) -> Vec<ToolCall> {
        let earlier = request.messages.iter().flat_map(Message::tool_calls);
        let mut known: HashSet<String> = earlier.map(|call| call.id.clone()).collect();
        let cut = self.finish == Some(FinishReason::Length);
        let settle = |call: CallDraft| {
            let fresh = call.id.is_empty() || !known.insert(call.id.clone());
            let id = if fresh { format!("call_{}", uuid::Uuid::new_v4().simple()) } else { call.id };
            ToolCall { name: call.name, args: if cut { call.args.cut_off() } else { call.args.value() }, id }
        };
        self.calls.drain(..).map(settle).collect()
    }
}

impl Args {
    /// Arguments that came as text are JSON; what is none stays text, which the tool refuses.
    fn value(self) -> Value {
        match self {
            Self::Text(text) if text.trim().is_empty() => json!({}),
            Self::Text(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            Self::Value(Value::Null) => json!({}),
            Self::Value(value) => value,
        }
    }

    fn cut_off(self) -> Value {
        let text = match self {
            Self::Text(text) => text,
            Self::Value(value) => value.to_string(),
        };
        Value::String(format!("cut off by the limit of tokens: {text}"))
    }
}
