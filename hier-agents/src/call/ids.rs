//! Makes the ids of the calls of one reply unique.
//!
//! Results, shares of a budget and progress are found by the id of a call. Some models give several calls of a reply
//! the same id.

use hier_checkpoint::message::{Body, ChatChunk, Message, ToolCall};

/// Gives each call of a reply a unique id. The id is the same in the reply and in its chunks.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    begun: Vec<(String, String)>,
}

impl CallIds {
    pub(super) fn replace_in_chunk(&mut self, chunk: &mut ChatChunk) {
        match chunk {
            ChatChunk::CallStarted { id, .. } => {
                let own = self.own(id);
                self.begun.push((std::mem::replace(id, own.clone()), own));
            }
            ChatChunk::CallArguments { id, .. } => {
                if let Some((_, own)) = self.begun.iter().rfind(|(given, _)| given == id) {
                    id.clone_from(own);
                }
            }
            ChatChunk::Done(response) => self.replace_in_answer(&mut response.message),
            _ => {}
        }
    }

    pub(super) fn replace_in_answer(&mut self, message: &mut Message) {
        let Body::Assistant { calls, .. } = &mut message.body else { return };
        if calls.len() < 2 {
            return;
        }
        let begun = std::mem::take(&mut self.begun);
        for (place, call) in calls.iter_mut().enumerate() {
            let own = match begun.get(place) {
                Some((given, own)) if *given == call.id => own.clone(),
                _ => self.own(&call.id),
            };
            self.begun.push((std::mem::replace(&mut call.id, own.clone()), own));
        }
    }

    /// Returns the id if no earlier call has it, or else a new id.
    fn own(&self, id: &str) -> String {
        if self.begun.iter().any(|(_, own)| own == id) {
            ToolCall::new("", serde_json::Value::Null).id
        } else {
            id.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hier_checkpoint::message::ChatResponse;

    #[test]
    fn calls_with_equal_ids_get_unique_ids_in_answer_and_chunks() {
        let call = |id: &str| ToolCall::new("look", json!({})).with_id(id);
        let message = Message::calls("", [call("a"), call("a"), call(""), call("")]);
        let mut ids = CallIds::default();
        let mut chunks: Vec<ChatChunk> = ChatResponse::new(message.clone()).into_chunks().collect();
        for chunk in &mut chunks {
            ids.replace_in_chunk(chunk);
        }
        let begun: Vec<&str> = chunks
            .iter()
            .filter_map(|chunk| match chunk {
                ChatChunk::CallStarted { id, .. } => Some(&**id),
                _ => None,
            })
            .collect();
        let Some(ChatChunk::Done(response)) = chunks.last() else { panic!("no end") };
        let whole: Vec<&str> = response.message.tool_calls().iter().map(|call| &*call.id).collect();
        assert_eq!(begun, whole);
        assert_eq!((whole[0], whole[2]), ("a", ""));
        let mut different = whole.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 4, "{whole:?}");

        let mut alone = message;
        CallIds::default().replace_in_answer(&mut alone);
        let mut ids: Vec<&str> = alone.tool_calls().iter().map(|call| &*call.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), 4, "{ids:?}");
    }
}
