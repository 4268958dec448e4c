//! Contents of messages: text, images, files.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::block;

/// The content of a message: a text, or parts that may be images or files. As JSON it is a text, or a list of parts.
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
    /// # use hier_checkpoint::message::{Content, Message, Part};
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
            Self::Parts(parts) => parts.iter().filter_map(Part::as_text).collect(),
        }
    }

    /// Changes each of its texts.
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
    /// Changes each text, the names of files, and the texts, numbers and keys of blocks, but not the addresses and bytes of images and
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

/// A part of what a message says. Models are sent images and files of users and of tools' results; a provider that does
/// not take one is not asked, and the error says so.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// A content block in the form of another framework or provider, kept unchanged. Use [`resolved`](Self::resolved) to read it.
    #[serde(untagged)]
    Block(Map<String, Value>),
}

impl Part {
    /// Returns the part as text, image or file, in whatever form it arrived. Returns none for any other block.
    ///
    /// ```
    /// # use hier_checkpoint::message::Part;
    /// # use serde_json::json;
    /// let block = json!({ "type": "image", "mimeType": "image/png", "data": "aGk=", "metadata": { "name": "dot.png" } });
    /// let part: Part = serde_json::from_value(block.clone())?;
    /// assert_eq!(part.resolved().as_deref(), Some(&Part::image_data("image/png", "aGk=")));
    /// assert_eq!(serde_json::to_value(&part)?, block);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn resolved(&self) -> Option<Cow<'_, Self>> {
        match self {
            Self::Block(block) => block::resolve(block).map(Cow::Owned),
            part => Some(Cow::Borrowed(part)),
        }
    }

    /// The text, if the part is text.
    #[doc(hidden)]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Block(block) => block::text(block),
            Self::Image { .. } | Self::File { .. } => None,
        }
    }

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

    /// Sets the name of a file. Other parts stay as they are.
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
        f.write_str("a text, or a list of parts: objects with a `type`")
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

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrBlock)
    }
}

struct TextOrBlock;

impl<'de> Visitor<'de> for TextOrBlock {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content block: an object with a `type`, or a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Part, E> {
        Ok(Part::text(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Part, E> {
        Ok(Part::Text { text })
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Part, A::Error> {
        let mut block = Map::deserialize(MapAccessDeserializer::new(fields))?;
        let kind = block.get("type").and_then(Value::as_str).ok_or_else(|| A::Error::missing_field("type"))?;
        // A block with exactly the fields of a part is that part. Any other is kept as it came.
        let fields: &[&str] = match kind {
            "text" => &["text"],
            "image" => &["url"],
            "file" => &["url", "name", "media_type"],
            _ => &[],
        };
        let has = |name: &str| block.get(name).is_some_and(Value::is_string);
        let is_own = fields.first().is_some_and(|first| has(first))
            && block.keys().all(|name| name == "type" || (fields.contains(&name.as_str()) && has(name)));
        if !is_own {
            return Ok(Part::Block(block));
        }
        let kind = kind.to_owned();
        let mut take = |name: &str| match block.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        Ok(match &*kind {
            "text" => Part::Text { text: take("text").unwrap_or_default() },
            "image" => Part::Image { url: take("url").unwrap_or_default() },
            _ => {
                Part::File { url: take("url").unwrap_or_default(), name: take("name"), media_type: take("media_type") }
            }
        })
    }
}
