//! The citations of an answer while it is read.

use std::ops::Range;

use hier_agents::Citation;
use serde_json::{Value, json};

use super::{AnswerDraft, MOST};

/// A citation of a text that may still grow.
#[derive(Clone, Debug)]
pub(crate) struct CitationDraft {
    citation: Citation,
    passage: Passage,
}

/// The supported passage, in the terms of the provider.
#[derive(Clone, Debug)]
pub(crate) enum Passage {
    Unknown,
    /// Bytes of the answer.
    Bytes(Range<usize>),
    /// A range of characters, counted from this byte of the answer.
    Characters(usize, Range<usize>),
    /// These words, probably at this byte of the answer.
    Words(String, usize),
}

impl Passage {
    /// Returns the bytes of the answer's text, or `None` if the text does not have the passage.
    fn bytes(&self, text: &str) -> Option<Range<usize>> {
        match self {
            Self::Unknown => None,
            Self::Bytes(range) => text.get(range.clone()).map(|_| range.clone()),
            Self::Characters(base, range) => {
                let rest = text.get(*base..)?;
                let at = |character: usize| {
                    let ends = rest.char_indices().map(|(place, _)| place).chain([rest.len()]);
                    { ends }.nth(character).map(|place| base + place)
                };
                let (start, end) = (at(range.start)?, at(range.end)?);
                (start <= end).then_some(start..end)
            }
            Self::Words(words, _) if words.is_empty() => None,
            Self::Words(words, start) => {
                let is_there = text.get(*start..).is_some_and(|rest| rest.starts_with(&**words));
                let start = if is_there { *start } else { text.find(&**words)? };
                Some(start..start + words.len())
            }
        }
    }
}

impl AnswerDraft {
    pub(crate) fn text_len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn ends_with(&self, text: &str) -> bool {
        self.text.ends_with(text)
    }

    /// Adds a citation. Ignores an empty citation, and any citation after the first [`MOST`].
    pub(crate) fn cite(&mut self, citation: Citation, passage: Passage) {
        if citation != Citation::default() && self.citations.len() < MOST {
            self.citations.push(CitationDraft { citation, passage });
        }
    }

    /// Removes the citations so far, because the provider sends all of them again.
    pub(crate) fn clear_citations(&mut self) {
        self.citations.clear();
    }

    pub(super) fn take_citations(&mut self) -> Vec<Citation> {
        let drafts = std::mem::take(&mut self.citations);
        let resolved = drafts.into_iter().map(|draft| {
            let passage = draft.passage.bytes(&self.text).unwrap_or_default();
            let mut citation = draft.citation;
            (citation.start, citation.end) = (passage.start, passage.end);
            citation
        });
        resolved.collect()
    }

    pub(crate) fn begin_text(&mut self) {
        self.block_start = self.text.len();
    }

    pub(crate) fn add_source(&mut self, source: &Value) {
        self.sources.push(source.clone());
    }

    /// Ends a text block. Cites its sources, and keeps the sources with the thought of this number, under this key.
    pub(crate) fn end_text(&mut self, number: u64, key: &str, read: fn(&Value) -> Citation) {
        let sources = std::mem::take(&mut self.sources);
        if sources.is_empty() {
            return;
        }
        let block = self.block_start..self.text.len();
        for source in &sources {
            self.cite(read(source), Passage::Bytes(block.clone()));
        }
        self.keep_fields(number, json!({ key: sources, "length": block.len() }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_found_in_the_text() {
        let text = "äöü is so. It is so.";
        let words = |words: &str, start: usize| Passage::Words(words.to_owned(), start);
        let cases = [
            (Passage::Unknown, None),
            (Passage::Bytes(0..2), Some("ä")),
            (Passage::Bytes(0..1), None),
            (Passage::Bytes(0..99), None),
            (Passage::Characters(0, 0..3), Some("äöü")),
            (Passage::Characters(2, 0..2), Some("öü")),
            (Passage::Characters(0, 11..20), Some("It is so.")),
            (Passage::Characters(0, 0..21), None),
            #[allow(clippy::reversed_empty_ranges)] // as a server may send
            (Passage::Characters(0, 3..1), None),
            (Passage::Characters(1, 0..1), None),
            (Passage::Characters(usize::MAX, 0..1), None),
            (words("is so.", 17), Some("is so.")),
            (words("It is", 0), Some("It is")),
            (words("It was", 0), None),
            (words("", 0), None),
            (words("so", usize::MAX), Some("so")),
        ];
        for (passage, expected) in cases {
            let found = passage.bytes(text).map(|bytes| &text[bytes]);
            assert_eq!(found, expected, "{passage:?}");
        }
        assert_eq!(words("is so.", 17).bytes(text), Some(17..23), "the second one");
    }
}
