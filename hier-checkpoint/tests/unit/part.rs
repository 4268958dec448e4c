//! The blocks that clients send, as parts of messages.

use serde_json::json;

use super::*;

fn resolved(block: &Value) -> Option<Part> {
    resolve(block.as_object().expect("a block"))
}

#[test]
fn blocks_of_all_clients_are_texts_images_and_files() {
    let png = Part::image_data("image/png", "aGk=");
    let linked = Part::image("https://x.example/1.png");
    let pdf = Part::file_data("application/pdf", "aGk=").named("a.pdf");
    for (block, part) in [
        (json!({ "type": "text", "text": "hi", "index": 0 }), Part::text("hi")),
        (json!({ "type": "input_text", "text": "hi" }), Part::text("hi")),
        (json!({ "type": "text-plain", "text": "hi", "mime_type": "text/plain", "title": "note" }), Part::text("hi")),
        (json!({ "type": "text-plain", "base64": "aGk=" }), Part::file_data("text/plain", "aGk=")),
        (json!({ "type": "image_url", "image_url": { "url": "https://x.example/1.png" } }), linked.clone()),
        (json!({ "type": "image_url", "image_url": "https://x.example/1.png" }), linked.clone()),
        (json!({ "type": "input_image", "image_url": "data:image/png;base64,aGk=" }), png.clone()),
        (json!({ "type": "image", "url": "https://x.example/1.png", "mime_type": "image/png" }), linked.clone()),
        (json!({ "type": "image", "source_type": "url", "url": "https://x.example/1.png" }), linked.clone()),
        (
            json!({ "type": "image", "mimeType": "image/png", "data": "aGk=", "metadata": { "name": "dot.png" } }),
            png.clone(),
        ),
        (json!({ "type": "image", "source_type": "base64", "mime_type": "image/png", "data": "aGk=" }), png.clone()),
        (json!({ "type": "image", "base64": "aGk=", "mime_type": "image/png" }), png.clone()),
        (
            json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } }),
            png.clone(),
        ),
        (json!({ "type": "image", "source": { "type": "url", "url": "https://x.example/1.png" } }), linked),
        (json!({ "type": "image", "data": "data:image/png;base64,aGk=" }), png.clone()),
        (json!({ "type": "media", "mime_type": "image/png", "data": "aGk=" }), png),
        (
            json!({ "type": "file", "mimeType": "application/pdf", "data": "aGk=", "metadata": { "filename": "a.pdf" } }),
            pdf.clone(),
        ),
        (json!({ "type": "file", "base64": "aGk=", "mime_type": "application/pdf", "filename": "a.pdf" }), pdf.clone()),
        (
            json!({ "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk=" } }),
            pdf.clone(),
        ),
        (
            json!({ "type": "document", "title": "a.pdf", "source": { "type": "base64", "media_type": "application/pdf", "data": "aGk=" } }),
            pdf,
        ),
        (
            json!({ "type": "file", "url": "https://x.example/a", "mime_type": "application/pdf" }),
            Part::file("application/pdf", "https://x.example/a"),
        ),
        (json!({ "type": "audio", "mime_type": "audio/ogg", "data": "aGk=" }), Part::file_data("audio/ogg", "aGk=")),
        (json!({ "type": "video", "base64": "aGk=" }), Part::file_data("video/mp4", "aGk=")),
        (
            json!({ "type": "input_audio", "input_audio": { "data": "aGk=", "format": "mp3" } }),
            Part::file_data("audio/mpeg", "aGk="),
        ),
    ] {
        assert_eq!(resolved(&block), Some(part), "{block}");
    }
    for block in [
        json!({ "type": "thinking", "thinking": "hm", "signature": "x" }),
        json!({ "type": "tool_use", "id": "1", "name": "look", "input": {} }),
        json!({ "type": "file", "file_id": "f1" }),
    ] {
        assert_eq!(resolved(&block), None, "{block}");
    }
}
