//! Assembles the messages that models send in pieces, for all protocols. Each protocol has its own form for the result.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem::discriminant;

use hier_core::message::ChatChunk;
use hier_core::runs::LoggedMessage;
use serde_json::{Map, Value, json};

use crate::wire::message;

/// The messages of a run that were sent so far.
#[derive(Debug, Default)]
pub(crate) struct MessageAssembler {
    /// Ids of all messages that were sent, in pieces or whole.
    known: HashSet<String>,
    /// Incomplete messages, in the order in which they began.
    open: Vec<PartialMessage>,
}

/// The part of a message that was sent so far.
#[derive(Clone, Debug)]
pub(crate) struct PartialMessage {
    pub(crate) id: String,
    /// The blocks in the order in which they began. Text and reasoning are one block each, and each call is a block.
    pub(crate) blocks: Vec<Block>,
    /// True if pieces of the message may be missing. Later pieces do not continue the blocks.
    has_gap: bool,
}

/// A part of a message that grows by pieces.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    Text(String),
    Reasoning(String),
    Call { id: String, name: String, args: String },
}

/// The change that one piece makes to its message.
#[derive(Debug)]
pub(crate) struct MessageDelta<'a> {
    /// True if the piece is the first of its message.
    pub(crate) is_first: bool,
    /// The part of the message that was sent so far, including this piece.
    pub(crate) sent: Cow<'a, PartialMessage>,
    pub(crate) change: MessageChange<'a>,
}

/// The content of a piece.
#[derive(Debug)]
pub(crate) enum MessageChange<'a> {
    Grown(Growth<'a>),
    /// The whole message, in LangChain's form. It may contain parts that no piece contained.
    Done(Value),
}

/// The start of a block, or an addition to a block.
#[derive(Debug)]
pub(crate) struct Growth<'a> {
    /// Index of the block in the message.
    pub(crate) block: usize,
    pub(crate) is_new: bool,
    pub(crate) text: &'a str,
}

impl MessageAssembler {
    /// Adds a piece of a message. Returns `None` if the piece belongs to a call that has not begun.
    pub(crate) fn add<'a>(&'a mut self, piece: &'a LoggedMessage) -> Option<MessageDelta<'a>> {
        let is_first = self.note(&piece.id);
        let place = self.open.iter().position(|open| open.id == piece.id).unwrap_or_else(|| {
            self.open.push(PartialMessage::new(&piece.id));
            self.open.len() - 1
        });
        if let ChatChunk::Done(response) = &piece.chunk {
            let mut message = json!(response.message);
            message::outward(&mut message);
            let sent = Cow::Owned(self.open.remove(place));
            return Some(MessageDelta { is_first, sent, change: MessageChange::Done(message) });
        }
        let sent = &mut self.open[place];
        if sent.has_gap {
            return None;
        }
        let growth = sent.grow(&piece.chunk)?;
        Some(MessageDelta { is_first, sent: Cow::Borrowed(sent), change: MessageChange::Grown(growth) })
    }

    /// Records a message. Returns false if the message was recorded before.
    pub(crate) fn note(&mut self, id: &str) -> bool {
        !self.known.contains(id) && self.known.insert(id.to_owned())
    }

    /// Records a gap in the log. The incomplete messages then grow no further until they are known as a whole.
    pub(crate) fn note_gap(&mut self) {
        self.open.iter_mut().for_each(|open| open.has_gap = true);
    }

    /// Removes and returns the message with this id, if pieces of it may be missing.
    pub(crate) fn take_with_gap(&mut self, id: &str) -> Option<PartialMessage> {
        let place = self.open.iter().position(|open| open.id == id && open.has_gap)?;
        Some(self.open.remove(place))
    }

    /// Removes and returns the incomplete messages.
    pub(crate) fn abandon(&mut self) -> Vec<PartialMessage> {
        std::mem::take(&mut self.open)
    }
}

impl PartialMessage {
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), blocks: Vec::new(), has_gap: false }
    }

    /// Adds a piece. Returns `None` if the piece is the whole message, or belongs to a call that has not begun.
    pub(crate) fn grow<'a>(&mut self, chunk: &'a ChatChunk) -> Option<Growth<'a>> {
        let (begins, text) = match chunk {
            ChatChunk::Text(text) => (Block::Text(String::new()), &**text),
            ChatChunk::Reasoning(text) => (Block::Reasoning(String::new()), &**text),
            ChatChunk::CallStarted { id, name, .. } => {
                let call = Block::Call { id: id.clone(), name: name.clone(), args: String::new() };
                return Some(self.begin(call, ""));
            }
            ChatChunk::CallArguments { id, text, .. } => {
                let block =
                    self.blocks.iter().position(|block| matches!(block, Block::Call { id: of, .. } if of == id))?;
                return Some(self.push(block, text));
            }
            _ => return None,
        };
        let known = self.blocks.iter().position(|block| discriminant(block) == discriminant(&begins));
        Some(match known {
            Some(block) => self.push(block, text),
            None => self.begin(begins, text),
        })
    }

    pub(crate) fn begin<'a>(&mut self, block: Block, text: &'a str) -> Growth<'a> {
        self.blocks.push(block);
        Growth { is_new: true, ..self.push(self.blocks.len() - 1, text) }
    }

    fn push<'a>(&mut self, block: usize, text: &'a str) -> Growth<'a> {
        let (Block::Text(content) | Block::Reasoning(content) | Block::Call { args: content, .. }) =
            &mut self.blocks[block];
        content.push_str(text);
        Growth { block, is_new: false, text }
    }

    pub(crate) fn text(&self) -> &str {
        let text = self.blocks.iter().find_map(|block| match block {
            Block::Text(text) => Some(&**text),
            _ => None,
        });
        text.unwrap_or_default()
    }

    /// Returns the ids of the calls so far, with their arguments.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Call { id, args, .. } => Some((&**id, &**args)),
            _ => None,
        })
    }

    /// Returns the text of the whole message, if no piece contained text.
    pub(crate) fn missing_text(&self, whole: &Value) -> Option<String> {
        Some(message::text(whole)).filter(|text| self.text().is_empty() && !text.is_empty())
    }

    /// Returns the calls of the whole message, if no piece contained a call.
    pub(crate) fn missing_calls<'a>(&self, whole: &'a Value) -> &'a [Value] {
        if self.calls().next().is_some() { &[] } else { calls(whole) }
    }
}

/// Returns the calls of a message in LangChain's form.
pub(crate) fn calls(message: &Value) -> &[Value] {
    message.get("tool_calls").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn field<'a>(call: &'a Value, name: &str) -> &'a str {
    call.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the messages in a node's update, in LangChain's form. Omits messages without an id, and system messages,
/// which are meant for the model.
pub(crate) fn written(update: &Value) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
    let channels = update.as_object().into_iter().flat_map(Map::values);
    let items = channels.flat_map(|value| match value {
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    });
    items.filter_map(|item| {
        let message = item.as_object()?;
        let kind = message.get("type")?.as_str()?;
        let is_message = matches!(kind, "ai" | "human" | "tool") && message.contains_key("content");
        Some((message.get("id")?.as_str().filter(|_| is_message)?, message))
    })
}
