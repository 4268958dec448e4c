//! How many bytes an event holds, about: what it is when it is encoded.

use serde_json::Value;

use crate::engine::stream::event::{DebugEvent, Event};
use crate::message::ChatChunk;
use crate::runs::TaskPhase;
use crate::state::{ChannelWrite, Stored, Update, Values};

/// The size of an event without its content, in bytes.
const OVERHEAD: usize = 128;
/// How many bytes of a state are read for one event, on average.
const READ: usize = 4 << 10;
/// How much of the scratch is kept.
const KEPT: usize = 64 << 10;

/// Weighs events. A state would have to be read as a whole for each event that shows it, so it is read only now and then,
/// the greater it is the less often, and taken to grow meanwhile as it did before.
#[derive(Default)]
pub(in crate::engine) struct Scale {
    /// What the state was when it was read, how many events ago that was, and by how much it grows with each.
    read: usize,
    age: usize,
    growth: usize,
    scratch: Vec<u8>,
}

impl Scale {
    pub(in crate::engine) fn weigh<S: Values>(&mut self, event: &Event<S>) -> usize {
        OVERHEAD
            + match event {
                Event::Values(state) => self.state(&**state),
                Event::Checkpoint(checkpoint) => self.state(&*checkpoint.state),
                Event::Updates(update) => {
                    update.update.writes().iter().filter_map(ChannelWrite::stored).map(|value| self.stored(value)).sum()
                }
                Event::Interrupted(questions) => asked(questions.iter().map(|question| &question.value)),
                Event::Custom { value, .. } => json(value),
                Event::Task(task) | Event::Debug(DebugEvent { task, .. }) => match &task.phase {
                    TaskPhase::Started { input, .. } => json(input),
                    TaskPhase::Finished { result, interrupts, .. } => {
                        json(result) + asked(interrupts.iter().map(|question| &question.value))
                    }
                },
                Event::Message(spoken) => match &spoken.chunk {
                    ChatChunk::Done(response) => self.stored(&response.message),
                    part => part.text_bytes(),
                },
                Event::Nested(nested) => usize::try_from(nested.event.bytes()).unwrap_or(usize::MAX),
                Event::Lagged(_) => 0,
            }
    }

    fn state<S: Values>(&mut self, state: &S) -> usize {
        self.age += 1;
        let grown = self.age * self.growth;
        if self.age > self.read / READ || grown > self.read {
            let channels = (0..).map_while(|channel| state.channel(channel).map(|_| channel));
            let bytes =
                channels.filter_map(|channel| state.stored(channel)).map(|value| self.stored(value)).sum::<usize>();
            self.growth = bytes.saturating_sub(self.read) / self.age;
            (self.read, self.age) = (bytes, 0);
        }
        self.read + self.age * self.growth
    }

    fn stored(&mut self, value: &dyn Stored) -> usize {
        self.scratch.clear();
        // The part that was encoded counts, if the rest cannot be.
        let _ = value.encode(&mut self.scratch);
        let bytes = self.scratch.len();
        self.scratch.truncate(KEPT);
        self.scratch.shrink_to(KEPT);
        bytes
    }
}

fn asked<'a>(questions: impl Iterator<Item = &'a Value>) -> usize {
    questions.map(|question| OVERHEAD + json(question)).sum()
}

fn json(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(json).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + json(value)).sum(),
        }
}
