//! Secrets are neither shown nor stored.

use std::time::{Duration, Instant};

use hier_agents::layer::{CardNumbers, Emails, Find, IpAddresses, Redact};
use hier_agents::prelude::*;
use hier_agents::{AgentBuilder, Citation, Content, Part, Reasoning, ToolErrors};
use hier_core::graph::CompiledGraph;
use hier_testkit::ScriptedModel;
use serde_json::{Value, json};

use super::{Moody, Try, heard};
use crate::support::call;

fn agent(redact: Redact) -> CompiledGraph<BaseState, BaseContext> {
    let agent = AgentBuilder::<BaseState>::new("desk").tool(find::TOOL).tool(fails::TOOL);
    agent.tool_errors(ToolErrors::Tell).layer(redact).compile().unwrap()
}

/// Finds a customer.
#[tool]
async fn find(name: String) -> String {
    format!("{name}: eva@example.org, card 4111 1111 1111 1111")
}

/// Fails.
#[tool]
async fn fails() -> hier_core::Result<String> {
    Err(NodeError::permanent("no customer eva@example.org"))
}

#[tokio::test]
async fn secret_split_across_chunks_is_redacted() {
    let said = ["Write to e", "va@exam", "ple.o", "rg, or to", " max", "@", "example.org", ". Or call."];
    // The same, cut after each letter.
    let letters: Vec<&'static str> = said.iter().flat_map(|piece| piece.split_inclusive(|_: char| true)).collect();
    for pieces in [said.to_vec(), letters] {
        let model = Moody::new("m", [Try::Says(pieces)]);
        let (received, outcome) = heard(&agent(Redact::new(Emails)), Message::user("?"), BaseContext::new(model)).await;
        let wanted = "Write to [redacted], or to [redacted]. Or call.";
        assert_eq!(received.text(), wanted);
        assert!(received.texts.len() > 2, "it is held back no longer than it must be: {received:?}");
        assert_eq!((received.ends.len(), &*received.ends[0].text()), (1, wanted));
        assert_eq!(outcome.unwrap().state().messages.last().unwrap().text(), wanted);
    }
}

/// For any cuts and any finder of secrets, the pieces add up to the whole redacted answer.
#[tokio::test]
async fn chunks_add_up_to_the_redacted_answer() {
    let secrets: &'static str =
        "keys: sk-12345 sk-123 sk-12sk-12345; 4111-1111-1111-1111 at 10.0.0.12:80 and ::1, é@x.org b@x.org";
    // A letter that is escaped more often than is read.
    let deep: &'static str = r"a\u005cu005cu005cu005cu005cu005cu005cu005cu005cu005cu0034 z, and so on until nothing of it is held back any more";
    let keys = |text: &str| text.find("sk-12345").map(|start| start..start + 8);
    let layers = [
        Redact::new(keys),
        Redact::texts(["sk-12345", "sk-123"]).mark("***"),
        Redact::new(CardNumbers),
        Redact::new(IpAddresses).mark(""),
        Redact::new(Emails),
    ];
    for (layer, text) in layers.iter().flat_map(|layer| [(layer, secrets), (layer, deep)]) {
        let wanted = layer.text(text).into_owned();
        assert_ne!(wanted, text);
        for length in [1, 2, 3, 5, 8, 13, 200] {
            let mut pieces = Vec::new();
            let mut rest = text;
            while !rest.is_empty() {
                let end = (length..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
                pieces.push(&rest[..end]);
                rest = &rest[end..];
            }
            let model = Moody::new("m", [Try::Says(pieces)]);
            let (received, _) = heard(&agent(layer.clone()), Message::user("?"), BaseContext::new(model)).await;
            assert_eq!(received.text(), wanted, "in pieces of {length}");
            assert_eq!(received.ends[0].text(), wanted);
        }
    }
}

/// The parts that only the provider can read go together: it refuses a call of its own tool without the result.
#[tokio::test]
async fn citations_and_opaque_parts_are_redacted() {
    let part = |data: Value| Reasoning::new("anthropic", "").with_data(data);
    let parts = [part(json!({ "block": { "q": "eva@example.org" } })), part(json!({ "block": { "found": 1 } }))];
    let source = Citation::new(9..24).with_title("eva@example.org").with_url("https://a.example");
    let after = Citation::new(25..28).with_cited_text("now");
    let text = "Write to eva@example.org now.";
    let answer = Message::assistant(text).with_reasoning(parts).with_citations([source, after]);
    let context = BaseContext::new(ScriptedModel::new([answer]));
    let outcome = agent(Redact::new(Emails)).invoke(Message::user("?")).context(context).await.unwrap();
    let said = outcome.state().messages.last().unwrap();
    assert!(said.reasoning().iter().all(|part| part.data.is_null()), "{said:#?}");
    let passages: Vec<_> = said.citations().iter().map(|source| source.passage(&said.text()).unwrap()).collect();
    let titles: Vec<_> = said.citations().iter().map(|source| source.title.as_deref()).collect();
    assert_eq!((passages, titles), (vec!["[redacted]", "now"], vec![Some("[redacted]"), None]));
}

#[tokio::test]
async fn requests_results_errors_and_stored_data_are_redacted() {
    let model = ScriptedModel::new([
        call("find", json!({"name": "max@example.org", "n": 4_111_111_111_111_111_u64})),
        call("find", json!({"name": "max@example.org"})),
        call("fails", json!({})),
        Message::assistant("I wrote to eva@example.org."),
    ]);
    let desk = agent(Redact::new(Emails));
    let asked = Message::user("I am eva@example.org");
    let (received, outcome) = heard(&desk, asked, BaseContext::new(model.clone())).await;
    let sent = serde_json::to_string(&model.requests()).unwrap();
    let stored = serde_json::to_string(outcome.unwrap().state()).unwrap();
    for text in [&sent, &stored, &format!("{received:?}")] {
        assert!(!text.contains("example.org"), "{text}");
    }
    assert!(sent.contains("[redacted]: [redacted], card 4111"), "{sent}");
    assert!(stored.contains("no customer [redacted]"), "{stored}");
    assert_eq!(received.arguments[1], json!({"name": "[redacted]"}).to_string());
}

#[test]
fn built_in_patterns_find_their_secrets() {
    let found = |find: &dyn Find, text: &str| find.find(text).map(|range| text[range].to_owned());
    let cases: [(&dyn Find, &str, Option<&str>); 17] = [
        (&Emails, "a <eva.m+x@mail.example.co.uk>.", Some("eva.m+x@mail.example.co.uk")),
        (&Emails, "eva@example.org.", Some("eva@example.org")),
        (&Emails, "a@b and @c.de and eva@localhost", None),
        (&Emails, "one@ two@x.org", Some("two@x.org")),
        (&CardNumbers, "card 4111 1111 1111 1111.", Some("4111 1111 1111 1111")),
        (&CardNumbers, "4111111111111111", Some("4111111111111111")),
        (&CardNumbers, "4111-1111-1111-1112", None),
        (&CardNumbers, "0000 0000 0000 0000", None),
        (&CardNumbers, "order 12 4111 1111 1111 1111 7", Some("4111 1111 1111 1111")),
        (&CardNumbers, "id 94111111111111111", None),
        (&IpAddresses, "at 192.168.0.1.", Some("192.168.0.1")),
        (&IpAddresses, "at 10.0.0.1:8080", Some("10.0.0.1")),
        (&IpAddresses, "at 2001:db8::1", Some("2001:db8::1")),
        (&IpAddresses, "at 999.1.1.1 or 1.2.3", None),
        (&IpAddresses, "12:30 and a::b", Some("a::b")),
        (&IpAddresses, "std::fmt", None),
        (&Emails, "", None),
    ];
    for (find, text, wanted) in cases {
        assert_eq!(found(find, text).as_deref(), wanted, "{text}");
    }
}

/// A client's content blocks, and the fields that it keeps with its messages, may have secrets, too. Data of files is not changed.
#[tokio::test]
async fn client_blocks_and_fields_are_redacted() {
    let sent: Message = serde_json::from_value(json!({
        "type": "human", "name": "eva@example.org", "additional_kwargs": { "from": ["eva@example.org"] },
        "content": [
            { "type": "text", "text": "Write to eva@example.org.", "index": 0 },
            { "type": "file", "mimeType": "text/plain", "data": "ZXZhQGV4YW1wbGUub3Jn", "metadata": { "name": "eva@example.org.txt" } },
        ],
    }))
    .expect("a message");
    let model = ScriptedModel::new([Message::assistant("Done.")]);
    let outcome = agent(Redact::new(Emails)).invoke(sent).context(BaseContext::new(model.clone())).await.unwrap();
    for messages in [&model.requests()[0].messages, &outcome.state().messages] {
        let text = serde_json::to_string(messages).expect("JSON");
        assert!(!text.contains("eva@example.org"), "{text}");
        assert!(text.contains("ZXZhQGV4YW1wbGUub3Jn") && text.contains("Write to [redacted]."), "{text}");
    }
}

/// Secrets are found at each depth of a client's blocks, whatever the names of the fields around them.
#[tokio::test]
async fn client_calls_names_and_keys_are_redacted() {
    let card = "4111 1111 1111 1111";
    let mut sent: Message = serde_json::from_value(json!({
        "type": "human", "4111 1111 1111 1111": true,
        "content": [
            { "type": "tool_use", "id": "c1", "name": "pay", "input": {
                "id": card, "url": card, "data": [card], "type": card, "number": 4_111_111_111_111_111_u64, "4111111111111111": 1,
            } },
            { "type": "tool_result", "tool_use_id": "c1", "content": [
                { "type": "text", "text": card },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "4111111111111111" } },
            ] },
            { "type": "note", "data": card, "url": "https://x.example/1" },
        ],
    }))
    .expect("a message");
    let Some(Content::Parts(parts)) = sent.content().cloned() else { panic!("it has parts: {sent:?}") };
    let file = Part::file("application/pdf", "https://x.example/2").named(format!("{card}.pdf"));
    let model = ScriptedModel::new([Message::assistant("Done.")]);
    let content = Content::parts(parts.into_iter().chain([file]));
    sent = Message { extra: sent.extra, ..Message::user(content) };
    let desk = agent(Redact::new(CardNumbers));
    let outcome = desk.invoke(sent).context(BaseContext::new(model.clone())).await.unwrap();
    for messages in [&model.requests()[0].messages, &outcome.state().messages] {
        let text = serde_json::to_string(messages).expect("JSON");
        assert!(!text.contains(card), "{text}");
        // Only the bytes of the image remain.
        assert_eq!(text.matches("4111111111111111").count(), 1, "{text}");
        assert!(text.contains("https://x.example/1") && text.contains("[redacted].pdf"), "{text}");
    }
}

/// Every text takes only a few passes.
#[test]
fn hostile_texts_are_read_in_bounded_time() {
    const SIZE: usize = 200_000;
    let begun = Instant::now();
    let digits = "1 2 3 4 5 6 7 8 9 ".repeat(SIZE / 18);
    assert!(Redact::new(CardNumbers).text(&digits).len() <= digits.len());
    let spaced = format!("4{}", " ".repeat(SIZE));
    assert_eq!(Redact::new(CardNumbers).text(&spaced), spaced);
    for escaped in [format!(r"\{}", "u005c".repeat(SIZE / 5)), r"\".repeat(SIZE / 2)] {
        let redacted = Redact::new(Emails).text(&escaped);
        assert!(redacted.starts_with("[redacted]"), "{}", &redacted[..20]);
    }
    let texts = Redact::texts(["a", "not there"]).mark("b");
    assert_eq!(texts.text(&"a".repeat(SIZE)), "b".repeat(SIZE));
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
}
