//! The expected results of the operations.

use std::collections::BTreeMap;

use crate::talk::{Talked, write};
use crate::world::Kind;

/// The text of the asking subgraph before updates.
pub(crate) const UNCHANGED: &str = "0 visits";

/// A turn as the model sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) number: u32,
    pub(crate) items: Vec<Kind>,
    /// The answers by the text of their questions.
    pub(crate) answers: BTreeMap<String, String>,
    /// The text of the asking subgraph before its question.
    pub(crate) said: String,
    /// The state before it.
    pub(crate) before: Before,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    pub(crate) log: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// The number of visits of the subgraph that keeps its state.
    pub(crate) visits: u32,
    /// The conversation.
    pub(crate) talk: Talked,
    /// The numbers of the zoos.
    pub(crate) zoos: Vec<u64>,
}

impl Turn {
    /// A turn that begins.
    pub(crate) fn new(number: u32, items: Vec<Kind>, before: Before) -> Self {
        Self { number, items, answers: BTreeMap::new(), said: UNCHANGED.to_owned(), before }
    }

    /// The answer to the question with this text.
    fn answer(&self, question: &str) -> &str {
        self.answers.get(question).map_or("nothing", String::as_str)
    }

    /// The log, once it is over.
    pub(crate) fn log(&self) -> Vec<String> {
        let works = self.items.iter().enumerate().map(|(place, kind)| {
            let name = format!("{}.{place}", self.number);
            match kind {
                Kind::Plain | Kind::Fails | Kind::Sleeps | Kind::Steps | Kind::Says(_) | Kind::Keeps => name,
                Kind::Waits => format!("{name}=told"),
                Kind::Expires => {
                    let answer = self.answers.get(&name).map_or("late", String::as_str);
                    format!("{name}={answer}")
                }
                Kind::Asks => format!("{name}={}", self.answer(&name)),
                Kind::AsksTwice => {
                    let [first, second] = ["a", "b"].map(|part| self.answer(&format!("{name}{part}")));
                    format!("{name}={first},{second}")
                }
            }
        });
        let after = ["left", "right", "joined"].map(|name| format!("{} {name}", self.number));
        self.before.log.iter().cloned().chain(works).chain(after).collect()
    }

    /// The text of the asking subgraph after its end.
    pub(crate) fn said(&self) -> String {
        let name = format!("{}.afresh", self.number);
        format!("{}, {name}={}", self.said, self.answer(&name))
    }

    /// The number of visits of the subgraph that keeps its state, after its end.
    pub(crate) fn visits(&self) -> u32 {
        self.before.visits + 1
    }

    /// The conversation, once it is over.
    pub(crate) fn talk(&self) -> Talked {
        let mut talked = self.before.talk.clone();
        write(&mut talked, format!("turn {}", self.number), &format!("turn {}", self.number));
        for (place, kind) in self.items.iter().enumerate() {
            if let Kind::Says(talk) = kind {
                talk.apply(&format!("{}.{place}", self.number), &mut talked);
            }
        }
        talked
    }

    /// The numbers of the zoos that are kept, once it is over.
    pub(crate) fn zoos(&self) -> Vec<u64> {
        let keeps = self.items.iter().enumerate().filter(|(_, kind)| **kind == Kind::Keeps);
        let kept = keeps.map(|(place, _)| seed(self.number, place));
        self.before.zoos.iter().copied().chain(kept).collect()
    }
}

/// The number of an item's zoo.
pub(crate) fn seed(turn: u32, place: usize) -> u64 {
    u64::from(turn) * 1_000 + place as u64
}
