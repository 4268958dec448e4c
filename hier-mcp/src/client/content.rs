//! Tool results as content for models, within the limits.

use hier_agents::{Content, Part};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::options::ClientOptions;

/// The note for a part of an unknown kind.
const UNKNOWN: &str = "[a part of the result has an unknown kind]";

/// Returns the content of a result, and true if the tool reports a failure.
pub(crate) fn of_result(result: CallToolResult, options: &ClientOptions) -> (Content, bool) {
    let structured = result.structured_content.filter(|structured| !repeats(&result.content, structured));
    let mut collector = ContentCollector::new(options);
    for block in result.content {
        collector.block(block);
    }
    if let Some(structured) = structured {
        collector.text(&structured.to_string());
    }
    (collector.finish(), result.is_error == Some(true))
}

pub(crate) fn of_resources(contents: Vec<ResourceContents>, options: &ClientOptions) -> Content {
    let mut collector = ContentCollector::new(options);
    for contents in contents {
        collector.resource(contents, false);
    }
    collector.finish()
}

pub(crate) fn of_block(block: ContentBlock, options: &ClientOptions) -> Content {
    let mut collector = ContentCollector::new(options);
    collector.block(block);
    collector.finish()
}

/// Returns true if a text block repeats the structured result, as servers do for older clients.
fn repeats(blocks: &[ContentBlock], structured: &Value) -> bool {
    let texts = blocks.iter().filter_map(ContentBlock::as_text);
    texts.map(|text| &text.text).any(|text| serde_json::from_str::<Value>(text).is_ok_and(|said| said == *structured))
}

struct ContentCollector {
    parts: Vec<Part>,
    /// The number of bytes of text that still fit.
    left: usize,
    /// The number of omitted bytes.
    cut: usize,
    /// The maximum size of an image or a file.
    media: usize,
}

impl ContentCollector {
    fn new(options: &ClientOptions) -> Self {
        Self { parts: Vec::new(), left: options.max_text, cut: 0, media: options.max_media }
    }

    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.text(&text.text),
            ContentBlock::Image(image) => self.media("image", &image.mime_type, &image.data, Part::image_data),
            ContentBlock::Audio(audio) => self.media("recording", &audio.mime_type, &audio.data, Part::file_data),
            ContentBlock::Resource(embedded) => self.resource(embedded.resource, true),
            ContentBlock::ResourceLink(link) => self.text(&format!("[resource {}: {}]", link.name, link.uri)),
            // A later version of the protocol may add kinds.
            _ => self.text(UNKNOWN),
        }
    }

    fn resource(&mut self, contents: ResourceContents, named: bool) {
        match contents {
            ResourceContents::TextResourceContents { uri, text, .. } if named => self.text(&format!("[{uri}]\n{text}")),
            ResourceContents::TextResourceContents { text, .. } => self.text(&text),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                let make = if kind.starts_with("image/") { Part::image_data } else { Part::file_data };
                self.media(&uri, &kind, &blob, make);
            }
            _ => self.text(UNKNOWN),
        }
    }

    fn text(&mut self, text: &str) {
        let end = text.floor_char_boundary(self.left);
        self.cut += text.len() - end;
        self.left -= end;
        if end > 0 || text.is_empty() {
            self.parts.push(Part::text(&text[..end]));
        }
    }

    fn media(&mut self, what: &str, kind: &str, data: &str, make: fn(&str, &str) -> Part) {
        if data.len() > self.media {
            let most = self.media;
            self.text(&format!("[{what} ({kind}) omitted: {} bytes exceed the limit of {most}]", data.len()));
        } else {
            self.parts.push(make(kind, data));
        }
    }

    fn finish(mut self) -> Content {
        if self.cut > 0 {
            self.parts
                .push(Part::text(format!("\n[{} more bytes of this result are omitted: request less]", self.cut)));
        }
        let is_text = |part: &Part| matches!(part, Part::Text { .. });
        if !self.parts.iter().all(is_text) {
            return Content::Parts(self.parts);
        }
        let texts: Vec<String> = self.parts.iter().map(|part| Content::Parts(vec![part.clone()]).text()).collect();
        Content::Text(texts.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(result: Value, options: &ClientOptions) -> (Content, bool) {
        of_result(serde_json::from_value(result).unwrap(), options)
    }

    #[test]
    fn results_become_content() {
        let options = ClientOptions::default();
        let (content, failed) = read(
            json!({"content": [
                {"type": "text", "text": "two"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "a:b", "text": "long"}},
                {"type": "resource", "resource": {"uri": "a:c", "mimeType": "application/pdf", "blob": "aGk="}},
                {"type": "resource_link", "uri": "a:d", "name": "notes"},
            ]}),
            &options,
        );
        assert!(!failed);
        let expected = Content::parts([
            Part::text("two"),
            Part::image_data("image/png", "aGk="),
            Part::file_data("audio/wav", "aGk="),
            Part::text("[a:b]\nlong"),
            Part::file_data("application/pdf", "aGk="),
            Part::text("[resource notes: a:d]"),
        ]);
        assert_eq!(content, expected);
    }

    #[test]
    fn structured_results_are_not_repeated() {
        let options = ClientOptions::default();
        let structured = json!({"sum": 3});
        let content = read(json!({"content": [], "structuredContent": structured}), &options).0;
        assert_eq!(content, Content::from("{\"sum\":3}"));
        let content = read(
            json!({"content": [{"type": "text", "text": "{ \"sum\": 3 }"}], "structuredContent": structured}),
            &options,
        )
        .0;
        assert_eq!(content, Content::from("{ \"sum\": 3 }"));
        let content =
            read(json!({"content": [{"type": "text", "text": "three"}], "structuredContent": structured}), &options).0;
        assert_eq!(content, Content::from("three\n{\"sum\":3}"));
    }

    #[test]
    fn long_results_are_truncated_and_large_media_omitted() {
        let options = ClientOptions { max_text: 5, max_media: 3, ..ClientOptions::default() };
        let content = read(json!({"isError": true, "content": [{"type": "text", "text": "äöüabc"}]}), &options);
        assert_eq!(content, (Content::from("äö\n\n[5 more bytes of this result are omitted: request less]"), true));
        let options = ClientOptions { max_media: 3, ..ClientOptions::default() };
        let content =
            read(json!({"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}), &options).0;
        assert_eq!(content, Content::from("[image (image/png) omitted: 4 bytes exceed the limit of 3]"));
    }
}
