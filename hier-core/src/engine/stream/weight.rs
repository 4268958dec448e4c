use serde_json::Value;

use crate::engine::stream::event::{DebugEvent, Event};
use crate::message::ChatChunk;
use crate::runs::TaskPhase;
use crate::state::{ChannelWrite, Stored, Update, Values};

/// The size of an event without its content, in bytes.
const OVERHEAD: usize = 128;
/// Number of bytes of the state to encode per event, on average.
const READ: usize = 4 << 10;
/// Maximum capacity of the scratch buffer between two events, in bytes.
const KEPT: usize = 64 << 10;

/// Estimates the size of events. Encoding the state for each event would cost too much. So a larger state is encoded
/// less often, and its growth is extrapolated in between.
#[derive(Default)]
pub(in crate::engine) struct Scale {
    /// The size of the state when it was last encoded.
    read: usize,
    age: usize,
    growth: usize,
    scratch: Vec<u8>,
}

impl Scale {
    pub(in crate::engine) fn weigh<S: Values>(&mut self, event: &Event<S>) -> usize {
        OVERHEAD
            + match event {
                Event::Values(state) => self.state_bytes(&**state),
                Event::Checkpoint(checkpoint) => self.state_bytes(&*checkpoint.state),
                Event::Updates(update) => {
                    let values = update.update.writes().iter().filter_map(ChannelWrite::stored);
                    values.map(|value| self.stored_bytes(value)).sum()
                }
                Event::Interrupted(questions) => question_bytes(questions.iter().map(|question| &question.value)),
                Event::Custom { value, .. } => json_bytes(value),
                Event::Task(task) | Event::Debug(DebugEvent { task, .. }) => match &task.phase {
                    TaskPhase::Started { input, .. } => json_bytes(input),
                    TaskPhase::Finished { result, interrupts, .. } => {
                        json_bytes(result) + question_bytes(interrupts.iter().map(|question| &question.value))
                    }
                },
                Event::Message(spoken) => match &spoken.chunk {
                    ChatChunk::Done(response) => self.stored_bytes(&response.message),
                    part => part.text_bytes(),
                },
                Event::Nested(nested) => usize::try_from(nested.event.bytes()).unwrap_or(usize::MAX),
                Event::Lagged(_) => 0,
            }
    }

    fn state_bytes<S: Values>(&mut self, state: &S) -> usize {
        self.age += 1;
        let grown = self.age * self.growth;
        if self.age > self.read / READ || grown > self.read {
            let channels = (0..).take_while(|channel| state.channel(*channel).is_some());
            let values = channels.filter_map(|channel| state.stored(channel));
            let bytes = values.map(|value| self.stored_bytes(value)).sum::<usize>();
            self.growth = bytes.saturating_sub(self.read) / self.age;
            (self.read, self.age) = (bytes, 0);
        }
        self.read + self.age * self.growth
    }

    fn stored_bytes(&mut self, value: &dyn Stored) -> usize {
        self.scratch.clear();
        // If a part of the value cannot be encoded, only the other parts count.
        let _ = value.encode(&mut self.scratch);
        let bytes = self.scratch.len();
        self.scratch.truncate(KEPT);
        self.scratch.shrink_to(KEPT);
        bytes
    }
}

fn question_bytes<'a>(questions: impl Iterator<Item = &'a Value>) -> usize {
    questions.map(|question| OVERHEAD + json_bytes(question)).sum()
}

fn json_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(json_bytes).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + json_bytes(value)).sum(),
        }
}
