//! The questions that a graph, a node or a tool asks, as constants, and the rules about them. The compiler evaluates the rules for `graph!`:
//!
//! 1. [`check_declared`]: a graph declares what its nodes, tools and subgraphs ask.
//! 2. [`check_distinct`]: two declared questions have different names.
//! 3. [`check_asked`]: something asks each declared question, unless a part of the graph makes no claims.

use super::QuestionType;
use crate::channel::equal;

/// The questions that a part of a graph can ask.
#[derive(Clone, Copy, Debug)]
pub enum QuestionFacts {
    /// It asks no declared question.
    Nothing,
    /// It makes no claims.
    Unknown,
    /// It can ask this question.
    One(QuestionType),
    /// It can ask what its parts can ask.
    All(&'static [QuestionFacts]),
}

impl QuestionFacts {
    /// Returns the first question that is not in the list.
    const fn first_outside(&self, declared: Option<&[QuestionType]>) -> Option<QuestionType> {
        match self {
            Self::Nothing | Self::Unknown => None,
            Self::One(question) => match declared {
                None if question.is_built_in() => None,
                Some(declared) if is_in(question, declared) => None,
                _ => Some(*question),
            },
            Self::All(parts) => {
                let mut at = 0;
                while at < parts.len() {
                    if let Some(found) = parts[at].first_outside(declared) {
                        return Some(found);
                    }
                    at += 1;
                }
                None
            }
        }
    }

    /// Returns true if it can ask this question, or makes no claims.
    const fn may_ask(&self, question: &QuestionType) -> bool {
        match self {
            Self::Nothing => false,
            Self::Unknown => true,
            Self::One(other) => question.is_same(other),
            Self::All(parts) => {
                let mut at = 0;
                while at < parts.len() {
                    if parts[at].may_ask(question) {
                        return true;
                    }
                    at += 1;
                }
                false
            }
        }
    }

    /// Returns the questions, each once.
    pub fn types(&self) -> Vec<QuestionType> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect(&self, found: &mut Vec<QuestionType>) {
        match self {
            Self::Nothing | Self::Unknown => {}
            Self::One(question) if is_in(question, found) => {}
            Self::One(question) => found.push(*question),
            Self::All(parts) => parts.iter().for_each(|part| part.collect(found)),
        }
    }
}

const fn is_in(question: &QuestionType, list: &[QuestionType]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if question.is_same(&list[at]) {
            return true;
        }
        at += 1;
    }
    false
}

/// Checks that a graph declares what one of its parts asks. Without a list (`asks: […]`), the approvals of tools and the questions of
/// `ask_operator` need no declaration.
///
/// # Panics
///
/// If a question is not declared. The message names it.
#[track_caller]
pub const fn check_declared(part: &str, asked: &QuestionFacts, graph: &str, declared: Option<&[QuestionType]>) {
    let Some(question) = asked.first_outside(declared) else { return };
    let message = Message::new().add(part).add(" asks `").add(question.ident()).add("`, which `").add(graph);
    let message = match declared {
        Some([_, ..]) => message.add("` does not declare: add `").add(question.ident()).add("` to `asks: […]`"),
        _ => message.add("` does not declare: write `asks: [").add(question.ident()).add("]`"),
    };
    panic!("{}", message.text());
}

/// Checks that the name of a declared question is unique.
///
/// # Panics
///
/// If an earlier question of the list has the same name.
#[track_caller]
pub const fn check_distinct(declared: &[QuestionType], place: usize) {
    let question = &declared[place];
    let mut at = 0;
    while at < place {
        if equal(declared[at].name(), question.name()) {
            let message = Message::new().add("the questions `").add(declared[at].ident()).add("` and `");
            let message = message.add(question.ident()).add("` are both stored as `").add(question.name());
            let message = message.add("`: rename one with `#[question(name = \"…\")]`");
            panic!("{}", message.text());
        }
        at += 1;
    }
}

/// Checks that something in the graph may ask a declared question.
///
/// # Panics
///
/// If nothing asks it.
#[track_caller]
pub const fn check_asked(question: &QuestionType, asked: &QuestionFacts, graph: &str) {
    if asked.may_ask(question) {
        return;
    }
    let message = Message::new().add("nothing in `").add(graph).add("` asks `").add(question.ident());
    let message = if question.is_built_in() {
        message.add("`: remove it from `asks: […]`")
    } else {
        message.add("`: take `Ask<").add(question.ident()).add(">` in a node, or remove it from `asks: […]`")
    };
    panic!("{}", message.text());
}

/// A text that is made at compile time.
struct Message {
    bytes: [u8; Message::SIZE],
    length: usize,
}

impl Message {
    const SIZE: usize = 512;

    const fn new() -> Self {
        Self { bytes: [0; Self::SIZE], length: 0 }
    }

    /// Appends a text. One that does not fit is left out.
    const fn add(mut self, text: &str) -> Self {
        let text = text.as_bytes();
        if self.length + text.len() > Self::SIZE {
            return self;
        }
        let mut at = 0;
        while at < text.len() {
            self.bytes[self.length] = text[at];
            self.length += 1;
            at += 1;
        }
        self
    }

    const fn text(&self) -> &str {
        match str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}
