//! Texts, images and files of what is said, as providers take them.

use std::borrow::Cow;

use hier_agents::{Content, Part};

/// A part of what is said.
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Media(Media<'a>),
}

/// An image or a file.
pub(crate) struct Media<'a> {
    pub(crate) is_image: bool,
    /// Empty if it is not known.
    pub(crate) mime: &'a str,
    pub(crate) name: Option<&'a str>,
    /// Where it is: its address, also if that has the bytes themselves.
    pub(crate) url: &'a str,
    /// Its bytes, if the address has them.
    pub(crate) base64: Option<&'a str>,
}

impl<'a> Media<'a> {
    fn new(is_image: bool, url: &'a str, name: Option<&'a str>, media_type: Option<&'a str>) -> Self {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        let told = data.map_or("", |(told, _)| told);
        // Parameters of a media type (`text/plain;charset=utf-8`) are not a part of it.
        let told = told.split(';').next().unwrap_or_default();
        let media_type = media_type.unwrap_or(told);
        Self { is_image, mime: media_type, name, url, base64: data.map(|(_, base64)| base64) }
    }

    /// The text that stands in its place for a provider that does not take it.
    pub(crate) fn left_out(&self, why: &str) -> String {
        // Without the name, which is the user's.
        tracing::warn!(media_type = self.mime, why, "a file of a conversation was left out of a request");
        format!("[{} is left out: {why}]", self.kind())
    }

    /// What it is, for errors.
    pub(crate) fn kind(&self) -> String {
        let kind = if self.is_image { "an image" } else { "a file" };
        match (self.name, self.mime) {
            (Some(name), _) => format!("{kind} (`{name}`)"),
            (None, "") => kind.to_owned(),
            (None, media_type) => format!("{kind} of the type `{media_type}`"),
        }
    }
}

/// Content whose blocks are texts, images and files. In place of a block that is none of these stands a note for the model.
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

/// The parts of what is said.
pub(crate) fn pieces(content: &Content) -> Vec<Piece<'_>> {
    let parts = match content {
        Content::Text(text) => return vec![Piece::Text(text)],
        Content::Parts(parts) => parts,
    };
    parts.iter().filter_map(piece).collect()
}

fn piece(part: &Part) -> Option<Piece<'_>> {
    match part {
        Part::Text { text } => Some(Piece::Text(text)),
        Part::Image { url } => Some(Piece::Media(Media::new(true, url, None, None))),
        Part::File { url, name, media_type } => {
            Some(Piece::Media(Media::new(false, url, name.as_deref(), media_type.as_deref())))
        }
        _ => None,
    }
}

/// The images and files of what is said.
pub(crate) fn media(content: &Content) -> Vec<Media<'_>> {
    let media = |piece| match piece {
        Piece::Media(media) => Some(media),
        Piece::Text(_) => None,
    };
    pieces(content).into_iter().filter_map(media).collect()
}
