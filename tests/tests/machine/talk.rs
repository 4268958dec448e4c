//! The conversation of a thread: its writes by id, and its expected messages.

use hier_agents::prelude::*;

/// A write to the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Talk {
    /// The message with this number: at its place, or at the end if it is new.
    Writes(u8),
    Removes(u8),
    /// Removes all messages, and writes one.
    Clears,
}

/// The messages as the model sees them: ids and texts.
pub(crate) type Talked = Vec<(String, String)>;

fn id(number: u8) -> String {
    format!("m{number}")
}

impl Talk {
    pub(crate) fn messages(self, text: &str) -> Vec<Message> {
        match self {
            Self::Writes(number) => vec![Message::user(text).with_id(id(number))],
            // Only what exists can be removed.
            Self::Removes(number) => vec![Message::user(text).with_id(id(number)), Message::remove(id(number))],
            Self::Clears => {
                vec![Message::user("gone"), Message::remove_all(), Message::assistant(text).with_id(id(0))]
            }
        }
    }

    /// Applies messages to the model as the thread does.
    pub(crate) fn apply(self, text: &str, talked: &mut Talked) {
        match self {
            Self::Writes(number) => write(talked, id(number), text),
            Self::Removes(number) => talked.retain(|(known, _)| *known != id(number)),
            Self::Clears => *talked = vec![(id(0), text.to_owned())],
        }
    }
}

/// Replaces the text of a message, or adds the message at the end.
pub(crate) fn write(talked: &mut Talked, id: String, text: &str) {
    match talked.iter_mut().find(|(known, _)| *known == id) {
        Some((_, old)) => text.clone_into(old),
        None => talked.push((id, text.to_owned())),
    }
}

/// The input of a turn.
pub(crate) fn opening(turn: u32) -> Message {
    Message::user(format!("turn {turn}")).with_id(format!("turn {turn}"))
}

pub(crate) fn seen(messages: &Messages) -> Talked {
    let seen = |message: &Message| (message.id.clone().unwrap_or_default(), message.text());
    messages.iter().map(seen).collect()
}
