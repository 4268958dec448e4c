use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::block;
use super::part::Part;

/// The content of a message: text, or a list of parts. In JSON, it is a string or a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Text.
    Text(String),
    /// Text, images and files.
    Parts(Vec<Part>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Content {
    /// Creates content from parts: texts, images and files.
    ///
    /// ```
    /// # use hier_checkpoint::message::{Content, Message, Part};
    /// let scan = Content::parts([Part::text("What does this receipt say?"), Part::image("https://example.org/1.png")]);
    /// let question = Message::user(scan);
    /// # assert_eq!(question.content().unwrap().text(), "What does this receipt say?");
    /// ```
    pub fn parts(parts: impl IntoIterator<Item = Part>) -> Self {
        Self::Parts(parts.into_iter().collect())
    }

    /// Returns the text parts as one string, without images and files.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts.iter().filter_map(Part::as_text).collect(),
        }
    }

    #[doc(hidden)]
    pub fn change_texts(&mut self, change: &mut impl FnMut(&mut String)) {
        match self {
            Self::Text(text) => change(text),
            Self::Parts(parts) => {
                for part in parts {
                    match part {
                        Part::Text { text } => change(text),
                        Part::Block(block) => block::texts(block, change),
                        Part::Image { .. } | Part::File { .. } => {}
                    }
                }
            }
        }
    }
}

impl Content {
    /// Calls `change` with each text and each file name. In a [`Part::Block`], also calls `change` with each key,
    /// and with each number as text. A changed number becomes a string. Leaves out the URLs and the bytes of images and
    /// files.
    #[doc(hidden)]
    pub fn change_everything(&mut self, change: &mut impl FnMut(&mut String)) {
        match self {
            Self::Text(text) => change(text),
            Self::Parts(parts) => parts.iter_mut().for_each(|part| match part {
                Part::Text { text } => change(text),
                Part::Block(block) => block::everything(block, change),
                Part::File { name: Some(name), .. } => change(name),
                Part::Image { .. } | Part::File { .. } => {}
            }),
        }
    }
}

impl<T: Into<String>> From<T> for Content {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrParts)
    }
}

struct TextOrParts;

impl<'de> Visitor<'de> for TextOrParts {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or a list of parts: objects with a `type`")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
        Vec::<Part>::deserialize(SeqAccessDeserializer::new(parts)).map(Content::Parts)
    }
}
