//! Texts, images and files of messages.

use std::borrow::Cow;

use hier_agents::{Content, Part};

pub(crate) enum ContentPart<'a> {
    Text(&'a str),
    Media(Media<'a>),
}

pub(crate) struct Media<'a> {
    pub(crate) is_image: bool,
    /// Empty if unknown.
    pub(crate) mime: &'a str,
    pub(crate) name: Option<&'a str>,
    /// The URL. For inline content this is the `data:` URL.
    pub(crate) url: &'a str,
    /// The bytes of a `data:` URL.
    pub(crate) base64: Option<&'a str>,
}

impl<'a> Media<'a> {
    fn new(is_image: bool, url: &'a str, name: Option<&'a str>, media_type: Option<&'a str>) -> Self {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        let stated = data.map_or("", |(stated, _)| stated);
        // Parameters (`text/plain;charset=utf-8`) are not part of the media type.
        let stated = stated.split(';').next().unwrap_or_default();
        let media_type = media_type.unwrap_or(stated);
        Self { is_image, mime: media_type, name, url, base64: data.map(|(_, base64)| base64) }
    }

    /// Returns the text that replaces the file for a provider that does not accept it.
    pub(crate) fn omission_note(&self, why: &str) -> String {
        // The log omits the file name, because the user chose it.
        tracing::warn!(media_type = self.mime, why, "omitted a file of the conversation from a request");
        format!("[{} is omitted: {why}]", self.kind())
    }

    pub(crate) fn kind(&self) -> String {
        let kind = if self.is_image { "an image" } else { "a file" };
        match (self.name, self.mime) {
            (Some(name), _) => format!("{kind} (`{name}`)"),
            (None, "") => kind.to_owned(),
            (None, media_type) => format!("{kind} of the type `{media_type}`"),
        }
    }
}

/// Returns content of texts, images and files only. A note for the model replaces any other block.
pub(crate) fn sendable(content: &Content) -> Cow<'_, Content> {
    let Content::Parts(parts) = content else { return Cow::Borrowed(content) };
    if !parts.iter().any(|part| matches!(part, Part::Block(_))) {
        return Cow::Borrowed(content);
    }
    let part = |part: &Part| match (part.resolved(), part) {
        (Some(resolved), _) => resolved.into_owned(),
        (None, Part::Block(block)) => {
            let kind = block.get("type").and_then(serde_json::Value::as_str).unwrap_or_default();
            Part::text(format!("[a `{kind}` block, which cannot be shown here]"))
        }
        (None, part) => part.clone(),
    };
    Cow::Owned(Content::parts(parts.iter().map(part)))
}

pub(crate) fn content_parts(content: &Content) -> Vec<ContentPart<'_>> {
    let parts = match content {
        Content::Text(text) => return vec![ContentPart::Text(text)],
        Content::Parts(parts) => parts,
    };
    parts.iter().filter_map(content_part).collect()
}

fn content_part(part: &Part) -> Option<ContentPart<'_>> {
    match part {
        Part::Text { text } => Some(ContentPart::Text(text)),
        Part::Image { url } => Some(ContentPart::Media(Media::new(true, url, None, None))),
        Part::File { url, name, media_type } => {
            Some(ContentPart::Media(Media::new(false, url, name.as_deref(), media_type.as_deref())))
        }
        _ => None,
    }
}

pub(crate) fn media_parts(content: &Content) -> Vec<Media<'_>> {
    let media = |part| match part {
        ContentPart::Media(media) => Some(media),
        ContentPart::Text(_) => None,
    };
    content_parts(content).into_iter().filter_map(media).collect()
}
