//! The conversation as it is sent to a model.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::record::{Clipping, Compaction, MessageMark, is_system};
use super::shorten::{Shortening, clipped, shortened};
use crate::prompts;
use hier_checkpoint::message::{Content, Message, Messages, Part};

/// Returns the shortened conversation that a [`Compaction`] describes. Returns all messages if there is no
/// `Compaction`, or if the `Compaction` does not [fit](Compaction::fits) the conversation.
///
/// In a custom node: `run.model()?.ask(compacted(&state.messages, state.compaction.as_deref()))`.
///
/// ```
/// use hier_agents::{Message, Messages, compacted};
///
/// let talk: Messages = [Message::user("Hello"), Message::assistant("Hello!")].into();
/// assert_eq!(compacted(&talk, None), talk);
/// ```
pub fn compacted(messages: &Messages, compaction: Option<&Compaction>) -> Messages {
    match compaction.filter(|record| record.fits(messages)) {
        Some(record) => Messages::of(sent_messages(messages, record).into_iter()),
        None => messages.clone(),
    }
}

pub(super) fn sent_messages(messages: &Messages, record: &Compaction) -> Vec<Arc<Message>> {
    let cut = record.cut_at(messages);
    let place = |mark: &Option<MessageMark>| mark.as_ref().and_then(|mark| mark.place(messages)).unwrap_or(0);
    let (cleared, offloaded) = (place(&record.cleared), place(&record.offloaded));
    let clip = record.clipped.as_ref();
    let clip = clip.and_then(|clip| Some((clip.upto.place(messages)?, clip.characters)));
    let list = messages.shared();
    let mut calls = OpenCalls::default();
    let instructions = list.iter().take(cut).filter(|message| is_system(message)).cloned();
    let summary = (cut > 0).then(|| Arc::new(summary(messages, record)));
    let rest = list.iter().enumerate().skip(cut).map(|(at, message)| {
        let clipped = clip.filter(|(upto, _)| at < *upto).map(|(_, characters)| characters);
        let how = Shortening { cleared: at < cleared, offloaded: at < offloaded, clipped };
        // Pinned messages are shortened last.
        let is_pinned = how.offloaded && record.pinned.iter().any(|id| message.id.as_ref() == Some(id));
        let how = Shortening { offloaded: how.offloaded && !is_pinned, ..how };
        let short = match shortened(message, how) {
            Cow::Borrowed(_) => message.clone(),
            Cow::Owned(short) => Arc::new(short),
        };
        if calls.follow(message) { short } else { Arc::new(prompts::result_alone(&short)) }
    });
    instructions.chain(summary).chain(rest).collect()
}

/// Returns the summary as a user message, followed by the pinned messages.
fn summary(messages: &Messages, record: &Compaction) -> Message {
    let (mark, cut) = (record.cut.as_ref(), record.cut_at(messages));
    let count = mark.map_or(0, |mark| mark.count);
    let mut parts = vec![Part::text(prompts::summed_up(count, &record.summary))];
    let most = record.clipped.as_ref().map_or(usize::MAX, |Clipping { characters, .. }| *characters);
    for id in &record.pinned {
        // Messages after the cut are sent at their own positions.
        let place = messages.place(id).filter(|place| *place < cut);
        let pinned = place.and_then(|place| messages.get(place)).and_then(Message::content);
        let Some(content) = pinned else { continue };
        parts.push(Part::text(prompts::WORD_FOR_WORD));
        match clipped(content.clone(), most, id) {
            Content::Text(text) => parts.push(Part::text(text)),
            Content::Parts(more) => parts.extend(more),
        }
    }
    let all = Content::Parts(parts);
    let is_text = matches!(&all, Content::Parts(parts) if parts.iter().all(|part| part.as_text().is_some()));
    let content = if is_text { Content::Text(all.text()) } else { all };
    Message::user(content).with_id(format!("summary:{}", mark.map_or("", |mark| &mark.message)))
}

/// The number of calls without a result, for each call id.
#[derive(Default)]
struct OpenCalls<'a>(HashMap<&'a str, usize>);

impl<'a> OpenCalls<'a> {
    /// Returns false for a result whose call is not sent, because the call was summarized or does not exist.
    fn follow(&mut self, message: &'a Message) -> bool {
        for call in message.tool_calls() {
            *self.0.entry(&call.id).or_default() += 1;
        }
        let Some(id) = message.tool_call_id() else { return true };
        match self.0.get_mut(id) {
            Some(open) if *open > 0 => {
                *open -= 1;
                true
            }
            _ => false,
        }
    }
}
