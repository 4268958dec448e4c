//! Sources of answers, in the published forms of the providers.

use hier_agents::{ChatRequest, Citation, Message};
use serde_json::{Value, json};

use super::super::*;

fn read(wire: &dyn Dialect, events: &[Value], whole: Option<&Value>) -> Message {
    let request = ChatRequest::new([Message::user("hi")]);
    let mut draft = AnswerDraft::new(&request, wire.maker("m", wire.info().url), whole.is_none());
    match whole {
        Some(whole) => wire.read_answer(&mut draft, whole).unwrap(),
        None => events.iter().for_each(|event| wire.read_event(&mut draft, event).unwrap()),
    }
    draft.into_answer().unwrap().message
}

/// Checks the passages and sources of the complete answer and of the streamed one.
fn check(wire: &dyn Dialect, events: &[Value], whole: &Value, expected: &[(&str, Citation)]) {
    for whole in [None, Some(whole)] {
        let message = read(wire, events, whole);
        let text = message.text();
        let read: Vec<(&str, Citation)> = message
            .citations()
            .iter()
            .map(|citation| {
                let mut source = citation.clone();
                (source.start, source.end) = (0, 0);
                (citation.passage(&text).unwrap_or_default(), source)
            })
            .collect();
        assert_eq!(read, expected, "{}: {message:#?}", wire.info().name);
    }
}

fn page(url: &str, title: &str) -> Citation {
    Citation::default().with_url(url).with_title(title)
}

#[test]
fn anthropic_cites_its_blocks() {
    let found = json!({
        "type": "web_search_result_location", "url": "https://a.example", "title": "A", "encrypted_index": "Eo8B",
        "cited_text": "Zürich is in Switzerland.",
    });
    let document = json!({
        "type": "page_location", "cited_text": "Yes.", "document_index": 0, "document_title": "Report",
        "start_page_number": 1, "end_page_number": 2, "file_id": "file_1",
    });
    let (first, second) = ("Für Zürich: ", "in der Schweiz.");
    let whole = json!({ "stop_reason": "end_turn", "content": [
        { "type": "text", "text": first }, { "type": "text", "text": second, "citations": [found, document] },
    ] });
    let delta = |index: u8, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let start = |index: u8| json!({ "type": "content_block_start", "index": index, "content_block": { "type": "text", "text": "" } });
    let stop = |index: u8| json!({ "type": "content_block_stop", "index": index });
    let events = [
        start(0),
        delta(0, json!({ "type": "text_delta", "text": first })),
        stop(0),
        start(1),
        delta(1, json!({ "type": "citations_delta", "citation": found })),
        delta(1, json!({ "type": "citations_delta", "citation": document })),
        delta(1, json!({ "type": "text_delta", "text": second })),
        stop(1),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
        json!({ "type": "message_stop" }),
    ];
    let expected = [
        (second, page("https://a.example", "A").with_cited_text("Zürich is in Switzerland.")),
        (second, Citation::default().with_title("Report").with_cited_text("Yes.").with_file_id("file_1")),
    ];
    check(ANTHROPIC, &events, &whole, &expected);
}

/// The indices count characters of their part, and messages and parts follow each other.
#[test]
fn responses_cite_characters() {
    let link =
        json!({ "type": "url_citation", "start_index": 5, "end_index": 11, "url": "https://a.example", "title": "A" });
    let file = json!({ "type": "file_citation", "index": 4, "file_id": "file-1", "filename": "a.pdf" });
    let made = json!({
        "type": "container_file_citation", "container_id": "c", "file_id": "cfile_1", "filename": "plot.png",
        "start_index": 0, "end_index": 4,
    });
    let part =
        |text: &str, annotations: Value| json!({ "type": "output_text", "text": text, "annotations": annotations });
    let item = |parts: Value| json!({ "type": "message", "id": "msg", "role": "assistant", "content": parts });
    let first = item(json!([part("Öl: Zürich.", json!([])), part("Süd: Zürich.", json!([link, file]))]));
    let second = item(json!([part("Plot.", json!([made]))]));
    let search =
        json!({ "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search" } });
    let whole = json!({ "status": "completed", "output": [search, first, second] });
    let delta =
        |index: u8, text: &str| json!({ "type": "response.output_text.delta", "output_index": index, "delta": text });
    let done =
        |index: u8, item: &Value| json!({ "type": "response.output_item.done", "output_index": index, "item": item });
    let events = [
        done(0, &search),
        delta(1, "Öl: Zür"),
        delta(1, "ich."),
        delta(1, "Süd: Zürich."),
        json!({ "type": "response.output_text.annotation.added", "output_index": 1, "annotation": link }),
        done(1, &first),
        delta(2, "Plot."),
        done(2, &second),
        json!({ "type": "response.completed", "response": whole }),
    ];
    let expected = [
        ("Zürich", page("https://a.example", "A")),
        ("", Citation::default().with_title("a.pdf").with_file_id("file-1")),
        ("Plot", Citation::default().with_title("plot.png").with_file_id("cfile_1")),
    ];
    check(RESPONSES, &events, &whole, &expected);
}

/// Chat completions nest the fields, as OpenAI's search models and `OpenRouter` do.
#[test]
fn chat_completions_cite_characters() {
    let link = json!({ "type": "url_citation", "url_citation": {
        "url": "https://a.example", "title": "A", "content": "Snow.", "start_index": 4, "end_index": 10,
    } });
    let message = json!({ "role": "assistant", "content": "Öl: Zürich.", "annotations": [link] });
    let whole = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
    let delta =
        |delta: Value, reason: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let events = [
        delta(json!({ "annotations": [link], "content": "" }), Value::Null),
        delta(json!({ "content": "Öl: Zürich." }), Value::Null),
        delta(json!({}), json!("stop")),
    ];
    check(OPENAI, &events, &whole, &[("Zürich", page("https://a.example", "A").with_cited_text("Snow."))]);
}

/// The indices count bytes. The sources come with the last chunk, and perhaps also with earlier chunks.
#[test]
fn gemini_cites_segments() {
    let sources = json!([
        { "web": { "uri": "https://a.example", "title": "a.example" } },
        { "retrievedContext": { "uri": "files/1", "title": "report.pdf", "text": "Snow." } },
    ]);
    let metadata = json!({
        "webSearchQueries": ["zürich"], "searchEntryPoint": { "renderedContent": "<div></div>" },
        "groundingChunks": sources, "groundingSupports": [
            { "segment": { "startIndex": 5, "endIndex": 17, "text": "Zürich, süd" }, "groundingChunkIndices": [0, 1] },
            { "segment": { "endIndex": 3, "text": "Öl" }, "groundingChunkIndices": [1, 9] },
        ],
    });
    let answer = |text: &str, metadata: &Value, reason: Value| {
        json!({ "candidates": [{
            "content": { "role": "model", "parts": [{ "text": text }] }, "groundingMetadata": metadata,
            "finishReason": reason,
        }] })
    };
    let whole = answer("Öl: Zürich, süd.", &metadata, json!("STOP"));
    let early = json!({ "webSearchQueries": ["zürich"], "groundingChunks": sources });
    let events = [
        answer("Öl: Zür", &early, Value::Null),
        answer("ich, süd.", &Value::Null, Value::Null),
        answer("", &metadata, json!("STOP")),
    ];
    let report = page("files/1", "report.pdf").with_cited_text("Snow.");
    let expected =
        [("Zürich, süd", page("https://a.example", "a.example")), ("Zürich, süd", report.clone()), ("Öl", report)];
    check(GEMINI, &events, &whole, &expected);
}

/// Servers may send sources in any form.
#[test]
fn odd_sources_are_ignored() {
    let annotations = json!([5, null, {}, { "type": 7 }, { "type": "url_citation", "url": 5 }, { "type": "type" }]);
    let part = json!({ "type": "output_text", "text": "Öl", "annotations": annotations });
    let far = json!({ "type": "url_citation", "url": "https://a.example", "start_index": u64::MAX, "end_index": -1 });
    let odd = json!({ "type": "output_text", "text": "", "annotations": [far] });
    let message = json!({ "type": "message", "content": [part, odd] });
    let message = read(RESPONSES, &[], Some(&json!({ "status": "completed", "output": [message] })));
    assert_eq!(message.citations(), [Citation::default().with_url("https://a.example")]);
    let content = json!({ "parts": [{ "text": "Öl" }] });
    let supports =
        json!([{ "segment": { "startIndex": u64::MAX }, "groundingChunkIndices": [0, -1, "x", u64::MAX] }, 5]);
    let metadata = json!({ "groundingChunks": [5], "groundingSupports": supports });
    let answer =
        json!({ "candidates": [{ "content": content, "groundingMetadata": metadata, "finishReason": "STOP" }] });
    assert!(read(GEMINI, &[], Some(&answer)).citations().is_empty());
}
