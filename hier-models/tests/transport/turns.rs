//! Thoughts of a model are sent back only to its maker.

use futures_util::StreamExt;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, Effort, Message, Messages, ModelError, ModelOptions};
use hier_core::checkpoint::codec;

use crate::providers::{Provider, SIGNED, all};
use crate::support::{Reply, Server, quick};

fn thinking(messages: impl Into<Messages>) -> ChatRequest {
    ChatRequest::new(messages).options(ModelOptions::new().reasoning(Effort::Low))
}

/// The conversation after the first answer and the result of its call.
async fn first_turn(provider: &Provider, streamed: bool) -> (Server, Messages) {
    let first = if streamed {
        Reply::Events(provider.events.clone())
    } else {
        Reply::Whole(200, "", provider.first.to_string())
    };
    let server = Server::start([first, Reply::Judged(provider.judge), Reply::Judged(provider.judge)]).await;
    let model = (provider.model)(&server.url).retry(quick());
    let question = Message::user("go");
    let request = thinking([question.clone()]);
    let answer = if streamed {
        let chunks: Vec<_> = model.stream(request).await.unwrap().map(Result::unwrap).collect().await;
        let Some(ChatChunk::Done(answer)) = chunks.last() else { panic!("it ends: {chunks:?}") };
        answer.clone()
    } else {
        model.chat(request).await.unwrap()
    };
    let call = answer.message.tool_calls()[0].clone();
    assert_eq!(call.name, "look");
    (server, [question, answer.message, Message::tool(&call, "seen")].into())
}

#[tokio::test]
async fn second_turn_contains_signatures() {
    for provider in all() {
        for streamed in [false, true] {
            let (server, messages) = first_turn(&provider, streamed).await;
            let model = (provider.model)(&server.url).retry(quick());
            let answer = model.chat(thinking(messages)).await;
            assert_eq!(answer.unwrap().text(), "done", "{} {streamed}", provider.name);
        }
    }
}

/// After the conversation was stored, as a checkpoint and as JSON.
#[tokio::test]
async fn stored_messages_keep_signatures() {
    for provider in all() {
        let (server, messages) = first_turn(&provider, true).await;
        let model = (provider.model)(&server.url).retry(quick());
        let stored: Messages = codec::decode(&codec::encode(&messages).unwrap()).unwrap();
        assert_eq!(model.chat(thinking(stored)).await.unwrap().text(), "done", "{}", provider.name);
        let stored: Messages = serde_json::from_value(serde_json::to_value(&messages).unwrap()).unwrap();
        assert_eq!(model.chat(thinking(stored)).await.unwrap().text(), "done", "{}", provider.name);
    }
}

/// These servers refuse missing signatures.
#[tokio::test]
async fn missing_signature_is_refused() {
    for provider in all() {
        let (server, messages) = first_turn(&provider, false).await;
        let bare = messages.iter().cloned().map(|message| message.with_reasoning([])).collect::<Messages>();
        let model = (provider.model)(&server.url).retry(quick());
        let error = model.chat(thinking(bare)).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { .. }) && error.to_string().contains("missing"), "{error}");
    }
}

/// Another provider takes over in the middle of a turn. It gets the conversation without the parts that only the first
/// can read.
#[tokio::test]
async fn thoughts_are_not_sent_to_other_providers() {
    for from in all() {
        let (_server, messages) = first_turn(&from, false).await;
        for to in all().into_iter().filter(|to| to.name != from.name) {
            let other = Server::start([Reply::Whole(200, "", to.first.to_string())]).await;
            (to.model)(&other.url).chat(thinking(messages.clone())).await.unwrap();
            let body = &other.asked()[0].body;
            let text = body.to_string();
            let what = format!("{} to {}: {body:#}", from.name, to.name);
            assert!(!text.contains(SIGNED) && !text.contains("hm"), "{what}");
            assert!(text.contains("look") && text.contains("seen"), "{what}");
            // The marks that each provider requires of foreign calls.
            let received = match to.name {
                "gemini" => body.pointer("/contents/1/parts/0/thoughtSignature"),
                "compatible" => body.pointer("/messages/1/tool_calls/0/extra_content/google/thought_signature"),
                _ => None,
            };
            let expected = ["gemini", "compatible"].contains(&to.name).then_some("skip_thought_signature_validator");
            assert_eq!(received.and_then(|received| received.as_str()), expected, "{what}");
            assert!(body.get("thinking").is_none(), "a turn that began without thinking goes on without: {what}");
        }
    }
}

/// A provider with this dialect at another host cannot read the thoughts.
#[tokio::test]
async fn thoughts_are_not_sent_to_other_hosts() {
    for provider in all() {
        let (_server, messages) = first_turn(&provider, false).await;
        let other = Server::start([Reply::Whole(200, "", provider.first.to_string())]).await;
        (provider.model)(&other.url).chat(thinking(messages)).await.unwrap();
        let is_sent = other.asked()[0].body.to_string().contains(SIGNED);
        assert_eq!(is_sent, provider.name == "anthropic", "{}", provider.name);
    }
}
