use hier_agents::{ChatRequest, Content, Message, Part, ToolCall};
use serde_json::{Value, json};

use super::super::*;
use super::sent;

/// A dialect, a part, and its position in the request, or a part of the text that replaces it.
type MediaCase = (&'static dyn Dialect, Part, Result<Vec<(&'static str, Value)>, &'static str>);

fn with_parts(parts: Vec<Part>) -> ChatRequest {
    let call = ToolCall { name: "look".to_owned(), args: json!({}), id: "a".to_owned() };
    let content = Content::Parts(parts);
    ChatRequest::new([
        Message::user(content.clone()),
        Message::calls("", [call.clone()]),
        Message::tool(&call, content),
        Message::user("well?"),
    ])
}

fn pdf() -> Part {
    Part::file_data("application/pdf", "aGk=").named("w2.pdf")
}

fn address() -> Part {
    Part::file("application/pdf", "https://papers.example/w2.pdf")
}

fn sound() -> Part {
    Part::file_data("audio/wav", "aGk=")
}

fn block(block: serde_json::Value) -> Part {
    serde_json::from_value(block).expect("a block")
}

#[test]
fn client_blocks_are_sent_in_each_dialect() {
    let upload =
        json!({ "type": "file", "mimeType": "application/pdf", "data": "aGk=", "metadata": { "filename": "w2.pdf" } });
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } });
    let cases: Vec<MediaCase> = vec![
        (OPENAI, block(upload.clone()), Ok(vec![("/messages/0/content/0/file/filename", json!("w2.pdf"))])),
        (ANTHROPIC, block(upload), Ok(vec![("/messages/0/content/0/type", json!("document"))])),
        (
            OPENAI,
            block(image.clone()),
            Ok(vec![("/messages/0/content/0/image_url/url", json!("data:image/png;base64,aGk="))]),
        ),
        (ANTHROPIC, block(image), Ok(vec![("/messages/0/content/0/source/media_type", json!("image/png"))])),
        (
            OPENAI,
            block(json!({ "type": "file", "file_id": "f1" })),
            Ok(vec![("/messages/0/content/0/text", json!("[a `file` block, which cannot be shown here]"))]),
        ),
    ];
    cases.into_iter().for_each(check);
}

/// Images and files of users and of results, inline and by URL. A text replaces an image or file that is not accepted.
#[test]
fn images_and_files_for_openai() {
    let data = "data:application/pdf;base64,aGk=";
    let cases: Vec<MediaCase> = vec![
        (
            OPENAI,
            pdf(),
            Ok(vec![
                ("/messages/0/content/0/file", json!({ "filename": "w2.pdf", "file_data": data })),
                ("/messages/3/content/0/file/file_data", json!(data)),
            ]),
        ),
        (OPENAI, sound(), Ok(vec![("/messages/0/content/0/input_audio", json!({ "data": "aGk=", "format": "wav" }))])),
        (
            OPENAI,
            address(),
            Err("[a file of the type `application/pdf` is omitted: chat completions accept files only inside"),
        ),
        (
            RESPONSES,
            pdf(),
            Ok(vec![
                ("/input/0/content/0", json!({ "type": "input_file", "filename": "w2.pdf", "file_data": data })),
                ("/input/2/output/0/type", json!("input_file")),
            ]),
        ),
        (RESPONSES, address(), Ok(vec![("/input/0/content/0/file_url", json!("https://papers.example/w2.pdf"))])),
        (
            RESPONSES,
            sound(),
            Err("[a file of the type `audio/wav` is omitted: OpenAI's responses accept only documents and images]"),
        ),
    ];
    cases.into_iter().for_each(check);
}

#[test]
fn images_and_files_for_anthropic_gemini_and_ollama() {
    let cases: Vec<MediaCase> = vec![
        (
            ANTHROPIC,
            pdf(),
            Ok(vec![
                (
                    "/messages/0/content/0",
                    json!({
                        "type": "document", "title": "w2.pdf",
                        "source": { "type": "base64", "media_type": "application/pdf", "data": "aGk=" },
                    }),
                ),
                ("/messages/2/content/0/content/0/type", json!("document")),
            ]),
        ),
        (
            ANTHROPIC,
            Part::file_data("text/plain;charset=utf-8", "aGk="),
            Ok(vec![(
                "/messages/0/content/0/source",
                json!({ "type": "text", "media_type": "text/plain", "data": "hi" }),
            )]),
        ),
        (ANTHROPIC, Part::file_data("text/plain", "/w=="), Err("is omitted: it is not UTF-8 text in Base64]")),
        (ANTHROPIC, sound().named("a.wav"), Err("[a file (`a.wav`) is omitted: Anthropic accepts images")),
        (
            GEMINI,
            sound(),
            Ok(vec![
                ("/contents/0/parts/0/inlineData", json!({ "mimeType": "audio/wav", "data": "aGk=" })),
                ("/contents/2/parts/0/functionResponse/name", json!("look")),
                ("/contents/3/parts/0/inlineData/data", json!("aGk=")),
            ]),
        ),
        (
            GEMINI,
            address(),
            Ok(vec![(
                "/contents/0/parts/0/fileData",
                json!({ "mimeType": "application/pdf", "fileUri": "https://papers.example/w2.pdf" }),
            )]),
        ),
        (
            OLLAMA,
            Part::image_data("image/png", "aGk="),
            Ok(vec![("/messages/0/images", json!(["aGk="])), ("/messages/2/images", json!(["aGk="]))]),
        ),
        (OLLAMA, pdf(), Err("[a file (`w2.pdf`) is omitted: Ollama accepts images but no other files]")),
        (OLLAMA, Part::image("https://papers.example/1.png"), Err("only inside the request, not by URL")),
    ];
    cases.into_iter().for_each(check);
}

fn check((wire, part, expected): MediaCase) {
    let body = sent(wire, "m", &with_parts(vec![part.clone()]));
    match expected {
        Ok(places) => {
            let body = body.unwrap();
            for (path, value) in places {
                assert_eq!(body.pointer(path), Some(&value), "{} {part:?} {path}: {body:#}", wire.info().name);
            }
        }
        Err(expected) => {
            // Once in the user's message, once in the result.
            let sent = body.unwrap().to_string();
            assert_eq!(sent.matches(expected).count(), 2, "{}: {sent}", wire.info().name);
            assert!(!sent.contains("aGk="), "{}: {sent}", wire.info().name);
        }
    }
}
