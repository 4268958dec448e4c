use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Message;

/// A source that supports a passage in a model's reply: a page or a file that a tool of the provider found.
/// [`Message::citations`](super::Message::citations) returns the citations of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)] // Citations of other formats stay in the `extra` fields of their message.
#[non_exhaustive]
pub struct Citation {
    /// The URL of the source, if the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The title of the page, or the name of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The words of the source that support the passage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cited_text: Option<String>,
    /// The provider's id of the source, if the source is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
    /// The start of the passage in the text of the message, as a byte offset.
    pub start: usize,
    /// The end of the passage in the text of the message, as a byte offset. Equal to the start if the provider does not
    /// name a passage.
    pub end: usize,
}

impl Citation {
    /// Creates a citation for a byte range in the text of a message.
    ///
    /// ```
    /// # use hier_checkpoint::message::{Citation, Message};
    /// let source = Citation::new(4..9).with_url("https://example.org/rust").with_title("Rust");
    /// let answer = Message::assistant("Use Rust.").with_citations([source]);
    /// assert_eq!(answer.citations()[0].passage(&answer.text()), Some("Rust."));
    /// ```
    pub fn new(passage: Range<usize>) -> Self {
        Self { start: passage.start, end: passage.end, ..Self::default() }
    }

    /// Sets the URL of the source.
    #[must_use]
    pub fn with_url(self, url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..self }
    }

    /// Sets the title of the source.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// Sets the words of the source that support the passage.
    #[must_use]
    pub fn with_cited_text(self, text: impl Into<String>) -> Self {
        Self { cited_text: Some(text.into()), ..self }
    }

    /// Sets the provider's id of the file.
    #[must_use]
    pub fn with_file_id(self, id: impl Into<String>) -> Self {
        Self { file_id: Some(id.into()), ..self }
    }

    fn line(&self, text: &str) -> String {
        let names: Vec<&str> = [&self.title, self.url.as_ref().map_or(&self.file_id, |_| &self.url)]
            .into_iter()
            .filter_map(|name| name.as_deref())
            .collect();
        let names = names.join(", ");
        match self.passage(text) {
            None => names,
            Some(passage) if names.is_empty() => format!("\"{passage}\""),
            Some(passage) => format!("\"{passage}\" ({names})"),
        }
    }

    /// Returns the passage that the source supports. The argument is the text of the message. Returns `None` if the
    /// provider does not name a passage, or if the text does not contain the passage because the text was shortened.
    pub fn passage<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.get(self.start..self.end).filter(|passage| !passage.is_empty())
    }

    /// Calls `change` with the URL, the title and the cited text, as far as the citation has them.
    #[doc(hidden)]
    pub fn change_texts(&mut self, change: &mut impl FnMut(&mut String)) {
        [&mut self.url, &mut self.title, &mut self.cited_text].into_iter().flatten().for_each(change);
    }
}

impl Message {
    /// Returns the text of the message, followed by a list of its sources. The report of a subagent has this form.
    ///
    /// ```
    /// # use hier_checkpoint::message::{Citation, Message};
    /// let source = Citation::new(4..9).with_url("https://example.org/rust").with_title("Rust");
    /// let answer = Message::assistant("Use Rust.").with_citations([source]);
    /// assert_eq!(answer.text_with_sources(), "Use Rust.\n- \"Rust.\" (Rust, https://example.org/rust)");
    /// ```
    pub fn text_with_sources(&self) -> String {
        let text = self.text();
        self.citations().iter().fold(text.clone(), |all, source| format!("{all}\n- {}", source.line(&text)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn citations_survive_serialization() {
        let cited = Citation::new(0..4).with_url("https://a.example").with_cited_text("It is so.").with_file_id("f1");
        let message = Message::assistant("Yes.").with_citations([cited]).with_id("m");
        let value = serde_json::to_value(&message).unwrap();
        assert_eq!(
            value["citations"],
            json!([{ "url": "https://a.example", "cited_text": "It is so.", "file_id": "f1", "start": 0, "end": 4 }])
        );
        assert_eq!(serde_json::from_value::<Message>(value).unwrap(), message);
        assert_eq!(serde_json::to_value(Message::assistant("Yes.")).unwrap().get("citations"), None);
    }

    #[test]
    fn citations_of_other_formats_are_kept_unread() {
        let theirs = json!([{ "start": 0, "end": 4, "text": "Yes.", "sources": ["doc_0"] }]);
        for theirs in [theirs, json!(["https://a.example"])] {
            let message = json!({ "role": "assistant", "content": "Yes.", "citations": theirs });
            let message: Message = serde_json::from_value(message).unwrap();
            assert_eq!((message.citations(), &message.extra["citations"]), (&[][..], &theirs));
        }
    }

    #[test]
    fn sources_are_listed_below_the_text() {
        let sources = [
            Citation::new(0..4).with_title("A").with_url("https://a.example").with_file_id("f"),
            Citation::new(0..4),
            Citation::new(0..0).with_title("B").with_file_id("f"),
        ];
        let listed = "Yes.\n- \"Yes.\" (A, https://a.example)\n- \"Yes.\"\n- B, f";
        assert_eq!(Message::assistant("Yes.").with_citations(sources).text_with_sources(), listed);
        assert_eq!(Message::assistant("Yes.").text_with_sources(), "Yes.");
    }

    #[test]
    fn passages_outside_the_text_do_not_panic() {
        for (start, end) in [(0, 9), (9, 9), (3, 1), (1, 2), (usize::MAX, usize::MAX), (0, 0)] {
            assert_eq!(Citation { start, end, ..Citation::default() }.passage("äö"), None, "{start}..{end}");
        }
        assert_eq!(Citation::new(2..4).passage("äö"), Some("ö"));
    }
}
