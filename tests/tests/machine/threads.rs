//! The threads of a machine: one that it drives, and those that it has left for their copies.

use crate::machine::{Law, Machine, new_thread};
use crate::model::{Before, Turn};
use crate::program_of::View;
use crate::talk::{Talk, Talked};

/// A thread with its model.
#[derive(Clone, Default)]
pub(crate) struct Line {
    pub(crate) thread: String,
    /// The number of turns.
    pub(crate) turns: u32,
    /// The turn that is open, or the last one.
    pub(crate) turn: Option<Turn>,
    /// The turns before it, in this line of the history.
    pub(crate) past: Vec<Turn>,
    /// The view when the last turn was finished.
    pub(crate) finished: bool,
    pub(crate) notes: Vec<String>,
    pub(crate) answered: Option<String>,
    /// The visits of the kept subgraph since the last turn.
    pub(crate) visits: u32,
    /// The writes to the conversation since the last turn.
    pub(crate) talk: Vec<(Talk, String)>,
}

impl Line {
    pub(crate) fn log(&self) -> Vec<String> {
        self.turn.as_ref().map_or_else(Vec::new, Turn::log)
    }

    pub(crate) fn visits(&self) -> u32 {
        self.turn.as_ref().map_or(0, Turn::visits) + self.visits
    }

    pub(crate) fn zoos(&self) -> Vec<u64> {
        self.turn.as_ref().map_or_else(Vec::new, Turn::zoos)
    }

    pub(crate) fn talk(&self) -> Talked {
        let mut talked = self.turn.as_ref().map_or_else(Vec::new, Turn::talk);
        self.talk.iter().for_each(|(talk, text)| talk.apply(text, &mut talked));
        talked
    }

    pub(crate) fn before_the_next(&self) -> Before {
        let notes = self.notes.clone();
        Before { log: self.log(), notes, visits: self.visits(), talk: self.talk(), zoos: self.zoos() }
    }
}

impl Machine {
    /// Continues a copy. Both run to their ends.
    pub(crate) async fn fork(&mut self, view: &View) -> Law {
        let copy = new_thread();
        let copied = self.saver().admin().unwrap().copy_thread(&self.line.thread, &copy).await;
        copied.map_err(|error| format!("it cannot be copied: {error}"))?;
        self.world.has_copy(&self.line.thread, &copy);
        self.left.push(self.line.clone());
        self.line.thread = copy;
        self.is_unchanged(view, "copying").await
    }

    /// Continues a thread that was left.
    pub(crate) fn go_back_to(&mut self, which: usize) {
        if let Some(place) = which.checked_rem(self.left.len()) {
            std::mem::swap(&mut self.line, &mut self.left[place]);
        }
    }

    /// Every thread can be brought to its end, one after the other.
    pub(crate) async fn end(&mut self) -> Law {
        while !self.stalled.is_empty() {
            self.wake().await?;
        }
        loop {
            self.look().await?;
            self.end_of_line().await?;
            self.read_the_past().await?;
            let Some(line) = self.left.pop() else { return Ok(()) };
            self.line = line;
        }
    }
}
