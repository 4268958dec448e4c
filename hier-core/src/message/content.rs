//! Contents of messages: text, images, files.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The content of a message: text, or parts of which some are images or files. As JSON it is a text, or a list of parts.
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
    /// Text, images and files, in order.
    ///
    /// ```
    /// # use hier_core::agent::{Content, Message, Part};
    /// let scan = Content::parts([Part::text("What does this receipt say?"), Part::image("https://example.org/1.png")]);
    /// let question = Message::user(scan);
    /// # assert_eq!(question.content().unwrap().text(), "What does this receipt say?");
    /// ```
    pub fn parts(parts: impl IntoIterator<Item = Part>) -> Self {
        Self::Parts(parts.into_iter().collect())
    }

    /// The text of it; that of its parts one after the other, without images and files.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text { text } => Some(text.as_str()),
                    Part::Image { .. } | Part::File { .. } => None,
                });
                texts.collect()
            }
        }
    }
}

impl<T: Into<String>> From<T> for Content {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// A part of what a message says. Models are sent images and files of users and of tools' results; a provider that does
/// not take one is not asked, and the error says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, by its address: `https:` or `data:`.
    Image {
        /// The address.
        url: String,
    },
    /// A file: a PDF, a recording.
    File {
        /// Its address: `https:` or `data:`.
        url: String,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Its media type (`application/pdf`), where the address does not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
    },
}

impl Part {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// An image, by its address: `https:` or `data:`.
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into() }
    }

    /// An image by its bytes, which are in Base64, and their media type (`image/png`).
    pub fn image_data(media_type: &str, base64: &str) -> Self {
        Self::Image { url: format!("data:{media_type};base64,{base64}") }
    }

    /// A file, by its media type (`application/pdf`) and its address: `https:` or `data:`.
    pub fn file(media_type: impl Into<String>, url: impl Into<String>) -> Self {
        Self::File { url: url.into(), name: None, media_type: Some(media_type.into()) }
    }

    /// A file by its bytes, which are in Base64, and their media type (`application/pdf`).
    pub fn file_data(media_type: &str, base64: &str) -> Self {
        Self::File { url: format!("data:{media_type};base64,{base64}"), name: None, media_type: None }
    }

    /// The same file with this name. Only files have names; other parts stay as they are.
    #[must_use]
    pub fn named(mut self, file: impl Into<String>) -> Self {
        if let Self::File { name, .. } = &mut self {
            *name = Some(file.into());
        }
        self
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
        f.write_str("a text, or a list of parts with the `type` `text`, `image` or `file`")
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
