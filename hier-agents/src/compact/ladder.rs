//! From long to short, rung by rung.

use std::ops::Range;

use super::groups::cuts;
use super::record::{Clipping, Compaction, Mark, is_system};
use super::size::{Used, size, size_of_all, size_of_text};
use super::view::sent;
use hier_checkpoint::message::{Body, Messages};

/// As short as this a message is not clipped any further, in characters.
const SHORTEST: usize = 200;
/// The longest summary, in tokens, however much room there is.
const LONGEST_SUMMARY: u64 = 2_000;

/// What is aimed at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// The tokens that the question may have, as the provider counts them.
    pub(crate) tokens: u64,
    /// What is sent beside the conversation, estimated.
    pub(crate) fixed: u64,
    /// What is known of its size.
    pub(crate) used: Used,
    /// Whether the last message of the user is what the turn is about.
    pub(crate) pins_last: bool,
}

/// How far the way went.
#[derive(Debug)]
pub(crate) struct Climb {
    pub(crate) record: Compaction,
    pub(crate) next: Step,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: it is short enough, or cannot be shorter.
    Done,
    /// These messages are to be summed up: [`Climb::summed_up`].
    SumUp(Range<usize>),
}

impl Goal {
    /// The same as an estimate, of the conversation only.
    fn size(&self) -> u64 {
        self.used.unscaled(self.tokens).saturating_sub(self.fixed)
    }

    /// How long the summary may be, in tokens.
    pub(crate) fn summary(&self) -> u64 {
        (self.size() / 5).clamp(50, LONGEST_SUMMARY)
    }

    fn is_reached(&self, messages: &Messages, record: &Compaction) -> bool {
        size_of_all(sent(messages, record).iter().map(|message| &**message)) <= self.size()
    }
}

/// The first rungs: what can be done without a model.
pub(crate) fn climb(messages: &Messages, before: Option<&Compaction>, goal: Goal) -> Climb {
    let mut record = before.filter(|record| record.fits(messages)).cloned().unwrap_or_default();
    record.tokens = goal.used.tokens;
    record.pinned = pinned(messages, goal.pins_last);
    let old = old(messages, goal.size() / 2);
    let further = |mark: &mut Option<Mark>| {
        let at = mark.as_ref().and_then(|mark| mark.place(messages)).unwrap_or(0);
        if old > at {
            *mark = Mark::behind(messages, old);
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
    // No single message takes most of the room: else all others would have to give way to it.
    let quarter = usize::try_from(goal.size()).unwrap_or(usize::MAX).max(SHORTEST);
    if messages.iter().any(|message| size(message) > goal.size() / 4) {
        record.clip(messages, quarter);
        if goal.is_reached(messages, &record) {
            return record.done();
        }
    }
    let from = record.cut_at(messages);
    match cut(messages, &record, goal, from) {
        Some(to) => Climb { record, next: Step::SumUp(from..to) },
        None => record.clipped_to(messages, goal),
    }
}

impl Climb {
    /// The messages up to here are summed up: the last rung.
    pub(crate) fn summed_up(self, messages: &Messages, goal: Goal, to: usize, (summary, by): (String, String)) -> Self {
        let mut record = self.record;
        record.cut = Mark::behind(messages, to);
        let most = usize::try_from(goal.summary().saturating_mul(6)).unwrap_or(usize::MAX);
        record.summary = if size_of_text(&summary) <= goal.summary().saturating_mul(2) {
            summary
        } else {
            summary.chars().take(most).chain(['…']).collect()
        };
        record.by = by;
        record.clipped_to(messages, goal)
    }
}

impl Compaction {
    fn done(self) -> Climb {
        Climb { record: self, next: Step::Done }
    }

    fn clip(&mut self, messages: &Messages, characters: usize) {
        let upto = Mark::behind(messages, messages.len());
        self.clipped = upto.map(|upto| Clipping { upto, characters });
    }

    /// The last rung: each message is clipped as far as is needed, the longest first.
    fn clipped_to(mut self, messages: &Messages, goal: Goal) -> Climb {
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

/// The messages of the user that are always sent: the first, which is the task of an agent that is given one, and the last, if a turn
/// is about it.
fn pinned(messages: &Messages, last: bool) -> Vec<String> {
    let mut users = messages.iter().filter(|message| matches!(message.body, Body::User { .. }));
    let first = users.next();
    let last = users.next_back().filter(|_| last);
    first.into_iter().chain(last).filter_map(|message| message.id.clone()).collect()
}

/// How many messages are old: all but the last ones of this size. What the model has not answered yet is not old.
fn old(messages: &Messages, recent: u64) -> usize {
    let answered = messages.iter().rposition(|message| matches!(message.body, Body::Assistant { .. }));
    let mut total = 0_u64;
    let kept = messages.iter().rev().take_while(|message| {
        total = total.saturating_add(size(message));
        total <= recent
    });
    (messages.len() - kept.count()).min(answered.unwrap_or(0))
}

/// Where the conversation is cut: as early as leaves it short enough; if none does, as late as possible. None if there is no place.
fn cut(messages: &Messages, record: &Compaction, goal: Goal, from: usize) -> Option<usize> {
    let cuts = cuts(messages);
    let uncut = Compaction { cut: None, ..record.clone() };
    let sizes: Vec<u64> = sent(messages, &uncut).iter().map(|message| size(message)).collect();
    let instructions: u64 = messages.iter().filter(|message| is_system(message)).map(size).sum();
    let places = record.pinned.iter().filter_map(|id| messages.place(id));
    let pinned: u64 = places.map(|place| sizes[place]).sum();
    let room = goal.size().saturating_sub(instructions + pinned + goal.summary());
    // There is something to sum up before it that is no instruction.
    let first = messages.iter().skip(from).position(|message| !is_system(message))? + from;
    let (mut left, mut best) = (0_u64, None);
    for place in (first + 1..messages.len()).rev() {
        if messages.get(place).is_some_and(|message| !is_system(message)) {
            left = left.saturating_add(sizes[place]);
        }
        if !cuts[place] {
            continue;
        }
        if best.is_some() && left > room {
            break;
        }
        best = Some(place);
    }
    best
}
