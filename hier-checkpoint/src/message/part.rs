//! Parts of contents: text, images, files, and blocks in the forms of other frameworks and providers.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::block::{self, default_mime, is_address};

/// A part of a message. Images and files can be in messages of users and in tool results. If a provider does not accept
/// an image or a file, the model receives a note instead.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// The URL of the image: `https:` or `data:`.
        url: String,
    },
    /// A file, such as a PDF or a recording.
    File {
        /// The URL of the file: `https:` or `data:`.
        url: String,
        /// The name of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The media type of the file, such as `application/pdf`, if the URL does not contain it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
    },
    /// A content block in the format of another framework or provider. hier keeps the block unchanged. To read the
    /// block, call [`resolved`](Self::resolved).
    #[serde(untagged)]
    Block(Map<String, Value>),
}

impl Part {
    /// Returns the part as text, image or file. Converts a [`Block`](Self::Block), and returns `None` if its format is
    /// unknown.
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
            Self::Block(block) => resolve(block).map(Cow::Owned),
            part => Some(Cow::Borrowed(part)),
        }
    }

    /// Returns the text of a text part, or of a block with text. Returns `None` for all other parts.
    #[doc(hidden)]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Block(block) => block::text(block),
            Self::Image { .. } | Self::File { .. } => None,
        }
    }

    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates an image part from a URL: `https:` or `data:`.
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into() }
    }

    /// Creates an image part from a media type (`image/png`) and Base64 data.
    pub fn image_data(media_type: &str, base64: &str) -> Self {
        Self::Image { url: format!("data:{media_type};base64,{base64}") }
    }

    /// Creates a file part from a media type (`application/pdf`) and a URL: `https:` or `data:`.
    pub fn file(media_type: impl Into<String>, url: impl Into<String>) -> Self {
        Self::File { url: url.into(), name: None, media_type: Some(media_type.into()) }
    }

    /// Creates a file part from a media type (`application/pdf`) and Base64 data.
    pub fn file_data(media_type: &str, base64: &str) -> Self {
        Self::File { url: format!("data:{media_type};base64,{base64}"), name: None, media_type: None }
    }

    /// Sets the name of a file. Has no effect on other parts.
    #[must_use]
    pub fn named(mut self, file: impl Into<String>) -> Self {
        if let Self::File { name, .. } = &mut self {
            *name = Some(file.into());
        }
        self
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
        f.write_str("a content block: an object with a `type`, or a string")
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
        // A block with exactly the fields of a part becomes that part. Every other block is kept unchanged.
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

/// Reads a text, an image or a file. Returns `None` for other blocks, such as a thought or a provider's file id.
fn resolve(block: &Map<String, Value>) -> Option<Part> {
    let kind = block.get("type")?.as_str()?;
    if let Some(text) = block::text(block) {
        return Some(Part::text(text));
    }
    let at = |path: &[&str]| follow(block, path).and_then(Value::as_str);
    let any = |paths: &[&[&str]]| paths.iter().find_map(|path| at(path));
    let mime =
        any(&[&["mime_type"], &["mimeType"], &["media_type"], &["source", "media_type"], &["source", "mimeType"]]);
    let mime = mime.or_else(|| default_mime(kind, at(&["input_audio", "format"])));
    let address = any(&[
        &["image_url", "url"],
        &["image_url"],
        &["url"],
        &["source", "url"],
        &["file", "file_data"],
        &["file_data"],
        &["file", "url"],
    ]);
    let data = any(&[&["base64"], &["data"], &["source", "data"], &["source", "value"], &["input_audio", "data"]]);
    let url = match (address, data) {
        (Some(url), _) if is_address(url) => url.to_owned(),
        // The address field may contain the raw bytes.
        (Some(data), None) | (_, Some(data)) if !is_address(data) => format!("data:{};base64,{data}", mime?),
        (_, Some(data)) => data.to_owned(),
        _ => return None,
    };
    let is_image =
        matches!(kind, "image" | "image_url" | "input_image") || mime.is_some_and(|mime| mime.starts_with("image/"));
    if is_image {
        return Some(Part::Image { url });
    }
    let name = any(&[
        &["filename"],
        &["name"],
        &["title"],
        &["metadata", "filename"],
        &["metadata", "name"],
        &["file", "filename"],
        &["extras", "filename"],
    ]);
    let media_type = mime.filter(|_| !url.starts_with("data:")).map(str::to_owned);
    Some(Part::File { url, name: name.map(str::to_owned), media_type })
}

fn follow<'a>(block: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(block.get(*first)?, |value, name| value.get(name))
}

#[cfg(test)]
#[path = "../../tests/unit/part.rs"]
mod tests;
