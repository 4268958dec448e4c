//! Requests in all dialects.

#[cfg(feature = "bedrock")]
mod bedrock;
mod citations;
#[cfg(feature = "bedrock")]
mod converse_rules;
mod costs;
mod media;
mod opaque;
mod options;
mod own_tools;
mod schemas;
mod thoughts;
mod tool_search;

use hier_agents::{ChatRequest, Message, ModelOptions, ToolSpec};
use serde_json::{Value, json};

use super::*;

fn sent(wire: &dyn Dialect, model: &str, request: &ChatRequest) -> Result<Value, String> {
    sent_with(&ProviderTools::default(), wire, model, request)
}

fn sent_with(tools: &ProviderTools, wire: &dyn Dialect, model: &str, request: &ChatRequest) -> Result<Value, String> {
    let (maker, searches_tools) = (wire.maker(model, wire.info().url), wire.searches_tools(model) == Some(true));
    let wire_request =
        WireRequest { model, maker: &maker, request, tools, native_output: None, searches_tools, streamed: false };
    super::request(wire, &wire_request).map_err(|failure| failure.reason)
}

fn asking(options: ModelOptions) -> ChatRequest {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({ "type": "object" }),
    };
    ChatRequest::new([Message::system("Be kind."), Message::user("hi")])
        .tools([tool("pay"), tool("look")])
        .options(options)
}
