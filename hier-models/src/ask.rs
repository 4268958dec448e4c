//! What we ask, in the words of the client.
//!
//! Providers refuse a conversation in which a tool call has no result, or a result no call. A child that inherits its
//! parent's history has such calls; they are completed here, for the provider only.

use genai::chat::{
    ChatMessage, ChatResponseFormat, ContentPart, JsonSpec, MessageContent, Tool, ToolCall, ToolResponse,
};
use hier_core::agent::{self, Body, Content, Part};

use crate::dialect::Dialect;

/// The result that a call is given which has none yet.
const OPEN: &str = "There is no result yet.";

/// Why the server cannot be asked this.
pub(crate) fn unfit(request: &agent::ChatRequest, dialect: Dialect) -> Option<String> {
    let contents = request.messages.iter().filter_map(|message| message.content());
    let mut parts = contents.flat_map(|content| match content {
        Content::Text(_) => &[],
        Content::Parts(parts) => parts.as_slice(),
    });
    let elsewhere = |part: &Part| matches!(part, Part::Image { url } if !url.starts_with("data:"));
    (dialect != Dialect::OpenAi && parts.any(elsewhere)).then(|| {
        "it takes images with the request only, and none by their address: give it as `data:image/png;base64,…`"
            .to_owned()
    })
}

/// The request.
pub(crate) fn request(request: &agent::ChatRequest, dialect: Dialect) -> genai::chat::ChatRequest {
    let mut messages = messages(request);
    if let Some(output) = request.output.as_ref().filter(|_| dialect == Dialect::Ollama) {
        // The client tells this dialect that it is to be JSON, and nothing more.
        let wanted = format!("Answer with JSON of this schema, and with nothing else: {}", output.schema);
        messages.push(ChatMessage::system(wanted));
    }
    let asked = genai::chat::ChatRequest::new(messages);
    if request.tools.is_empty() { asked } else { asked.with_tools(request.tools.iter().map(tool)) }
}

/// How it is to be answered.
pub(crate) fn options(request: &agent::ChatRequest, dialect: Dialect) -> genai::chat::ChatOptions {
    let mut options = genai::chat::ChatOptions::default()
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_usage(true);
    options.temperature = request.options.temperature;
    options.max_tokens = request.options.max_tokens;
    options.response_format = request.output.as_ref().map(|output| match dialect {
        Dialect::Ollama => ChatResponseFormat::JsonMode,
        Dialect::OpenAi | Dialect::Anthropic => JsonSpec::new(&*output.name, output.schema.clone()).into(),
    });
    options
}

fn tool(tool: &agent::ToolSpec) -> Tool {
    let told = Tool::new(&*tool.name).with_schema(tool.parameters.clone());
    if tool.description.is_empty() { told } else { told.with_description(&*tool.description) }
}

/// The conversation. Results stand behind the message that calls, as providers want it, whatever is between them here.
fn messages(request: &agent::ChatRequest) -> Vec<ChatMessage> {
    let list: Vec<_> = request.messages.iter().collect();
    let mut asked = Vec::with_capacity(list.len());
    let mut taken = vec![false; list.len()];
    for (place, message) in list.iter().enumerate() {
        match &message.body {
            Body::System { content } => asked.push(ChatMessage::system(parts(content))),
            Body::User { content } => asked.push(ChatMessage::user(parts(content))),
            Body::Assistant { content, calls, .. } => {
                asked.extend(assistant(content, calls));
                for call in calls {
                    let answers = |at: usize| !taken[at] && list[at].tool_call_id() == Some(&call.id);
                    let result = (place + 1..list.len()).find(|at| answers(*at));
                    if let Some(at) = result {
                        taken[at] = true;
                    }
                    let text = result.and_then(|at| list[at].content()).map_or_else(|| OPEN.to_owned(), Content::text);
                    asked.push(ToolResponse::new(&*call.id, text).with_fn_name(&*call.name).into());
                }
            }
            Body::Tool { content, .. } if !taken[place] => {
                asked.push(ChatMessage::user(format!("The result of a tool call: {}", content.text())));
            }
            Body::Tool { .. } | Body::Remove => {}
        }
    }
    asked
}

/// What the model said; nothing if it said nothing and called nothing, which providers refuse.
fn assistant(content: &Content, calls: &[agent::ToolCall]) -> Option<ChatMessage> {
    let mut said: Vec<ContentPart> = parts(content).into_parts();
    said.retain(|part| part.as_text().is_none_or(|text| !text.trim().is_empty()));
    said.extend(calls.iter().map(|call| {
        ContentPart::ToolCall(ToolCall {
            call_id: call.id.clone(),
            fn_name: call.name.clone(),
            // The provider must get back an object, even where the model gave none.
            fn_arguments: if call.args.is_object() { call.args.clone() } else { serde_json::json!({}) },
            thought_signatures: None,
        })
    }));
    (!said.is_empty()).then(|| ChatMessage::assistant(MessageContent::from_parts(said)))
}

fn parts(content: &Content) -> MessageContent {
    match content {
        Content::Text(text) => MessageContent::from_text(text.as_str()),
        Content::Parts(parts) => MessageContent::from_parts(parts.iter().map(part).collect::<Vec<_>>()),
    }
}

fn part(part: &Part) -> ContentPart {
    match part {
        Part::Text { text } => ContentPart::from_text(text.as_str()),
        Part::Image { url } => {
            let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
            match data {
                Some((media_type, bytes)) => ContentPart::from_binary_base64(media_type, bytes, None),
                None => ContentPart::from_binary_url(media_type(url), url.as_str(), None),
            }
        }
    }
}

/// The media type of an image by the end of its address. Providers that fetch it look for themselves.
fn media_type(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    match path.rsplit('.').next() {
        Some("png") => "image/png",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        _ => "image/jpeg",
    }
}
