//! The questions that a graph, a node or a tool asks, as constants, and the rules about them. The compiler evaluates
//! the rules for `graph!`:
//!
//! 1. [`check_declared`]: a graph declares what its nodes, tools and subgraphs ask.
//! 2. [`check_distinct`]: two declared questions have different names.
//! 3. [`check_asked`]: something asks each declared question, unless a part of the graph makes no claims.
//! 4. [`check_hook`]: the functions `on_entry` and `on_exit` ask nothing.

use hier_spec::const_text::ConstText;

use super::QuestionType;
use crate::channel::equal;

/// The declared questions that a node, a tool, a subgraph or a whole graph can ask.
#[derive(Clone, Copy, Debug)]
pub enum QuestionFacts {
    /// No declared question.
    Nothing,
    /// Any question, because the types do not show which questions the node or tool asks.
    Unknown,
    /// This question.
    One(QuestionType),
    /// The questions of several nodes, tools or subgraphs.
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

    /// Returns true if the part can ask this question, or makes no claims about its questions.
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

    /// Returns the known questions without duplicates.
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

/// Checks that a graph declares the questions of one of its nodes, tools or subgraphs. `part` names the node, tool or
/// subgraph in the message. If the graph has no list `asks: […]`, the approvals of tools and the questions of
/// `ask_operator` need no declaration.
///
/// # Panics
///
/// Panics if a question is not declared. The message names the question.
#[track_caller]
pub const fn check_declared(part: &str, asked: QuestionFacts, graph: &str, declared: Option<&[QuestionType]>) {
    let Some(question) = asked.first_outside(declared) else { return };
    let message = ConstText::new().text(part).text(" asks ").quoted(question.ident()).text(", which ").quoted(graph);
    let message = match declared {
        Some([_, ..]) => message.text(" does not declare: add ").quoted(question.ident()).text(" to `asks: […]`"),
        _ => message.text(" does not declare: write `asks: [").text(question.ident()).text("]`"),
    };
    message.refuse()
}

/// Checks that a function of `on_entry` or `on_exit` asks no declared question. `hook` names the function's option in
/// the message.
///
/// # Panics
///
/// Panics if the function asks a question. The message names the question.
#[track_caller]
pub const fn check_hook(hook: &str, asked: QuestionFacts) {
    let Some(question) = asked.first_outside(Some(&[])) else { return };
    let message = ConstText::new().quoted(hook).text(" asks ").quoted(question.ident());
    message.text(", which code of `on_entry` and `on_exit` cannot: ask in a node").refuse()
}

/// Checks that the declared question with the index `place` has another name than the questions before it.
///
/// # Panics
///
/// Panics if an earlier question of the list has this name.
#[track_caller]
pub const fn check_distinct(declared: &[QuestionType], place: usize) {
    let question = &declared[place];
    let mut at = 0;
    while at < place {
        if equal(declared[at].name(), question.name()) {
            let message = ConstText::new().text("the questions ").quoted(declared[at].ident()).text(" and ");
            let message = message.quoted(question.ident()).text(" are both stored as ").quoted(question.name());
            message.text(": rename one with `#[question(name = \"…\")]`").refuse();
        }
        at += 1;
    }
}

/// Checks that a node, tool or subgraph of the graph may ask a declared question.
///
/// # Panics
///
/// Panics if no node, tool or subgraph may ask the question.
#[track_caller]
pub const fn check_asked(question: &QuestionType, asked: &QuestionFacts, graph: &str) {
    if asked.may_ask(question) {
        return;
    }
    let message = ConstText::new().text("nothing in ").quoted(graph).text(" asks ").quoted(question.ident());
    let message = if question.is_built_in() {
        message.text(": remove it from `asks: […]`")
    } else {
        message.text(": take `Ask<").text(question.ident()).text(">` in a node, or remove it from `asks: […]`")
    };
    message.refuse()
}
