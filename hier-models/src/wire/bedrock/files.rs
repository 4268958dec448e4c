//! Images, documents, videos and sounds of the Converse API.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::media::Media;

/// The accepted formats: media type, endings of file names, kind of block, name of the format.
const FORMATS: [(&str, &[&str], &str, &str); 22] = [
    ("image/png", &["png"], "image", "png"),
    ("image/jpeg", &["jpeg", "jpg"], "image", "jpeg"),
    ("image/gif", &["gif"], "image", "gif"),
    ("image/webp", &["webp"], "image", "webp"),
    ("application/pdf", &["pdf"], "document", "pdf"),
    ("text/csv", &["csv"], "document", "csv"),
    ("application/msword", &["doc"], "document", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", &["docx"], "document", "docx"),
    ("application/vnd.ms-excel", &["xls"], "document", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", &["xlsx"], "document", "xlsx"),
    ("text/html", &["html", "htm"], "document", "html"),
    ("text/plain", &["txt"], "document", "txt"),
    ("text/markdown", &["md"], "document", "md"),
    ("video/mp4", &["mp4"], "video", "mp4"),
    ("video/quicktime", &["mov"], "video", "mov"),
    ("video/webm", &["webm"], "video", "webm"),
    ("video/x-matroska", &["mkv"], "video", "mkv"),
    ("video/mpeg", &["mpeg", "mpg"], "video", "mpeg"),
    ("audio/mpeg", &["mp3"], "audio", "mp3"),
    ("audio/wav", &["wav"], "audio", "wav"),
    ("audio/flac", &["flac"], "audio", "flac"),
    ("audio/ogg", &["ogg"], "audio", "ogg"),
];
/// The longest name of a document that is derived from a file name, in characters.
const LONGEST_NAME: usize = 150;

/// Returns the block of a file, or the reason why Bedrock does not accept it.
pub(super) fn media_block(media: &Media<'_>, names: &mut DocumentNames) -> Result<Value, String> {
    let source = match media.base64 {
        Some(base64) => json!({ "bytes": base64 }),
        None if media.url.starts_with("s3://") => json!({ "s3Location": { "uri": media.url } }),
        None => return Err("Amazon Bedrock accepts files inside the request, and `s3://` addresses".to_owned()),
    };
    let accepted = if media.is_image { "accepts PNG, JPEG, GIF and WebP" } else { "does not accept this type" };
    let (kind, format) = format_of(media).ok_or_else(|| format!("Amazon Bedrock {accepted}"))?;
    let mut block = json!({ "format": format, "source": source });
    if kind == "document" {
        block["name"] = json!(names.unique(media.name.unwrap_or_default()));
    }
    Ok(json!({ kind: block }))
}

/// Finds the format by the media type, or by the ending of the name or address.
fn format_of(media: &Media<'_>) -> Option<(&'static str, &'static str)> {
    let by_type = FORMATS.iter().find(|(known, ..)| media.mime.eq_ignore_ascii_case(known));
    let by_ending = || {
        let names = [media.name, media.base64.is_none().then_some(media.url)];
        let endings = names.into_iter().flatten().filter_map(|name| name.rsplit_once('.'));
        let mut endings = endings.map(|(_, ending)| ending.to_ascii_lowercase());
        endings.find_map(|ending| FORMATS.iter().find(|(_, known, ..)| known.contains(&&*ending)))
    };
    by_type.or_else(by_ending).map(|(_, _, kind, format)| (*kind, *format))
}

/// The names of the documents of a request. Bedrock refuses equal names, and most punctuation.
#[derive(Default)]
pub(super) struct DocumentNames(HashSet<String>);

impl DocumentNames {
    /// Returns an unused name that resembles the name of the file without its ending.
    fn unique(&mut self, file: &str) -> String {
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-()[]".contains(letter);
        let words: String = stem.chars().map(|letter| if allowed(letter) { letter } else { ' ' }).collect();
        let name: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST_NAME).collect();
        let name = if name.is_empty() { "document" } else { name.trim_end() };
        let mut unique = name.to_owned();
        let mut number = 2;
        // Bedrock compares names without regard to case.
        while !self.0.insert(unique.to_ascii_lowercase()) {
            unique = format!("{name} ({number})");
            number += 1;
        }
        unique
    }
}
