//! The graphs that the recording was made with, where those of the other tests differ.

use hier_agents::prelude::*;
use hier_agents::{ChatModel, ChatRequest, ChatStream, ModelError};
use hier_core::async_trait;
use hier_core::graph::{CompiledGraph, GraphBuilder, Task};
use hier_core::message::{ChatChunk, ChatResponse, Messages};
use hier_server::Server;

/// Says hello, word by word.
struct Words;

fn hello() -> ChatResponse {
    let mut message = Message::assistant("Hello there friend");
    message.id = Some("ai-1".to_owned());
    ChatResponse::new(message)
}

#[async_trait]
impl ChatModel for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    async fn chat(&self, _: ChatRequest) -> Result<ChatResponse, ModelError> {
        Ok(hello())
    }

    async fn stream(&self, _: ChatRequest) -> Result<ChatStream, ModelError> {
        let words = ["Hello", " ", "there", " ", "friend"].map(|word| Ok(ChatChunk::Text(word.into())));
        Ok(Box::pin(futures_util::stream::iter(words.into_iter().chain([Ok(ChatChunk::Done(hello()))]))))
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Talk {
    #[reducer(messages)]
    messages: Messages,
}

/// A model and nothing else.
fn chat() -> CompiledGraph<Talk, BaseContext> {
    let mut graph = GraphBuilder::new("chat");
    graph = graph.node("model", async |task: Task<Talk, BaseContext>| -> hier_core::Result<TalkUpdate> {
        let answer = task.run().model()?.ask(&task.state().messages).await?;
        Ok(Talk::update().messages([answer.message]))
    });
    graph = graph.edge(START, "model").edge("model", END);
    graph.compile().expect("a graph")
}

/// The graphs of the recording.
pub(crate) fn server() -> Server {
    crate::graphs::server()
        .graph("chat", chat(), BaseContext::new(Words))
        .graph("trivial", crate::graphs::Boom::compile(), ())
        .allow_origins(["*"])
}
