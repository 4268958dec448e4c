//! The stages of a compaction, from the least to the most invasive.

use std::ops::Range;

use super::cut_points::cut_points;
use super::record::{Clipping, Compaction, MessageMark, is_system};
use super::size::{ContextUsage, size, size_of_all, size_of_text, start_of_text};
use super::view::sent_messages;
use hier_checkpoint::message::{Body, Messages};

/// Minimum length of a clipped message, in characters.
const SHORTEST: usize = 200;
/// Maximum length of a summary, in tokens.
const LONGEST_SUMMARY: u64 = 2_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionGoal {
    /// The maximum size of the request, in tokens of the provider.
    pub(crate) tokens: u64,
    /// The estimated size of everything that is sent in addition to the conversation.
    pub(crate) fixed: u64,
    pub(crate) usage: ContextUsage,
    /// True if the last user message is the subject of the turn and must be sent.
    pub(crate) pins_last: bool,
}

/// The result of the stages that need no model.
#[derive(Debug)]
pub(crate) struct StageResult {
    pub(crate) record: Compaction,
    pub(crate) next: NextStage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextStage {
    /// The conversation is short enough, or cannot be shortened further.
    Done,
    /// The model must summarize these messages: see [`StageResult::with_summary`].
    SumUp(Range<usize>),
}

impl CompactionGoal {
    /// Returns the target size of the conversation, in estimated tokens.
    fn size(&self) -> u64 {
        self.usage.unscaled(self.tokens).saturating_sub(self.fixed)
    }

    /// Returns the maximum length of the summary, in tokens.
    pub(crate) fn summary(&self) -> u64 {
        (self.size() / 5).clamp(50, LONGEST_SUMMARY)
    }

    /// Cuts off the end of a summary that is more than twice as long as it should be.
    pub(crate) fn limit_summary(&self, summary: String) -> String {
        if size_of_text(&summary) <= self.summary().saturating_mul(2) {
            return summary;
        }
        format!("{}…", start_of_text(&summary, self.summary().saturating_mul(3) / 2))
    }

    fn is_reached(&self, messages: &Messages, record: &Compaction) -> bool {
        size_of_all(sent_messages(messages, record).iter().map(|message| &**message)) <= self.size()
    }
}

/// Applies the stages that need no model.
pub(crate) fn apply_stages(messages: &Messages, before: Option<&Compaction>, goal: CompactionGoal) -> StageResult {
    let mut record = before.filter(|record| record.fits(messages)).cloned().unwrap_or_default();
    record.tokens = goal.usage.tokens;
    record.pinned = pinned(messages, goal.pins_last);
    let old = old_messages(messages, goal.size() / 2);
    let further = |mark: &mut Option<MessageMark>| {
        let at = mark.as_ref().and_then(|mark| mark.place(messages)).unwrap_or(0);
        if old > at {
            *mark = MessageMark::behind(messages, old);
        }
    };
    further(&mut record.cleared);
    if goal.is_reached(messages, &record) {
        return record.done();
    }
    further(&mut record.offloaded);
    if goal.is_reached(messages, &record) {
        return record.done();
    }
    // No single message may take most of the space, because all other messages would have to make room.
    let quarter = usize::try_from(goal.size()).unwrap_or(usize::MAX).max(SHORTEST);
    if messages.iter().any(|message| size(message) > goal.size() / 4) {
        record.clip(messages, quarter);
        if goal.is_reached(messages, &record) {
            return record.done();
        }
    }
    let from = record.cut_at(messages);
    match cut(messages, &record, goal, from) {
        Some(to) => StageResult { record, next: NextStage::SumUp(from..to) },
        None => record.clipped_to(messages, goal),
    }
}

impl StageResult {
    /// Applies the last stages: replaces the messages before `to` with a summary, and clips messages that are still too
    /// long.
    pub(crate) fn with_summary(
        self,
        messages: &Messages,
        goal: CompactionGoal,
        to: usize,
        (summary, by): (String, String),
    ) -> Self {
        let mut record = self.record;
        record.cut = MessageMark::behind(messages, to);
        record.summary = goal.limit_summary(summary);
        record.by = by;
        record.clipped_to(messages, goal)
    }
}

impl Compaction {
    fn done(self) -> StageResult {
        StageResult { record: self, next: NextStage::Done }
    }

    fn clip(&mut self, messages: &Messages, characters: usize) {
        let upto = MessageMark::behind(messages, messages.len());
        self.clipped = upto.map(|upto| Clipping { upto, characters });
    }

    /// Clips the longest messages, each only as far as needed.
    fn clipped_to(mut self, messages: &Messages, goal: CompactionGoal) -> StageResult {
        if goal.is_reached(messages, &self) {
            return self.done();
        }
        let rest = messages.iter().skip(self.cut_at(messages));
        let longest = rest.map(size).max().unwrap_or(0);
        let (mut low, mut high) = (SHORTEST, usize::try_from(longest.saturating_mul(4)).unwrap_or(usize::MAX));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            self.clip(messages, middle);
            if goal.is_reached(messages, &self) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        self.clip(messages, low);
        self.done()
    }
}

/// Returns the ids of the user messages that are always sent: the first, which is the task of a subagent, and the last,
/// if the turn is about it.
fn pinned(messages: &Messages, last: bool) -> Vec<String> {
    let mut users = messages.iter().filter(|message| matches!(message.body, Body::User { .. }));
    let first = users.next();
    let last = users.next_back().filter(|_| last);
    first.into_iter().chain(last).filter_map(|message| message.id.clone()).collect()
}

/// Returns the number of old messages: all except the last messages of this total size. Messages that the model has not
/// answered yet are not old.
fn old_messages(messages: &Messages, recent: u64) -> usize {
    let answered = messages.iter().rposition(|message| matches!(message.body, Body::Assistant { .. }));
    let mut total = 0_u64;
    let kept = messages.iter().rev().take_while(|message| {
        total = total.saturating_add(size(message));
        total <= recent
    });
    (messages.len() - kept.count()).min(answered.unwrap_or(0))
}

/// Returns the position at which to cut the conversation: the first position that makes it short enough, or else the
/// last possible position. Messages that follow the last reply are not cut off, because the model has not seen them.
fn cut(messages: &Messages, record: &Compaction, goal: CompactionGoal, from: usize) -> Option<usize> {
    let cut_points = cut_points(messages);
    let uncut = Compaction { cut: None, ..record.clone() };
    let sizes: Vec<u64> = sent_messages(messages, &uncut).iter().map(|message| size(message)).collect();
    let instructions: u64 = messages.iter().filter(|message| is_system(message)).map(size).sum();
    let pinned: Vec<usize> = record.pinned.iter().filter_map(|id| messages.place(id)).collect();
    // The summary contains only the pinned messages before the cut.
    let room = |cut: usize| {
        let pinned: u64 = pinned.iter().filter(|place| **place < cut).map(|place| sizes[*place]).sum();
        goal.size().saturating_sub(instructions + pinned + goal.summary())
    };
    // At least one message that is not an instruction must precede the cut.
    let first = messages.iter().skip(from).position(|message| !is_system(message))? + from;
    let answered = messages.iter().rposition(|message| matches!(message.body, Body::Assistant { .. }));
    let unseen = answered.map_or(messages.len(), |answered| answered + 1);
    let (mut left, mut best) = (0_u64, None);
    for place in (first + 1..messages.len()).rev() {
        if messages.get(place).is_some_and(|message| !is_system(message)) {
            left = left.saturating_add(sizes[place]);
        }
        if place > unseen || !cut_points[place] {
            continue;
        }
        if best.is_some() && left > room(place) {
            break;
        }
        best = Some(place);
    }
    best
}
