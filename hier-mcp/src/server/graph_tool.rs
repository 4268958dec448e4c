use std::borrow::Cow;
use std::sync::Arc;

use hier_agents::{Body, Content, Message, Part};
use hier_core::graph::{DynGraph, DynInput};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ResourceContents, Tool};
use serde_json::{Map, Value, json};

/// The argument of a graph with a conversation.
const MESSAGE: &str = "message";

#[derive(Clone)]
pub(crate) struct GraphTool {
    pub(crate) graph: Arc<dyn DynGraph>,
    /// True if the graph has a conversation, to which a call adds a message.
    converses: bool,
    /// True if a call may be a task.
    pub(crate) is_long: bool,
}

impl GraphTool {
    pub(crate) fn new(graph: Arc<dyn DynGraph>) -> Self {
        let probe = DynInput::New(json!({"messages": [{"role": "user", "content": "?"}]}));
        let text = DynInput::New(json!({ MESSAGE: "?" }));
        let converses = graph.check(&probe).is_ok() && graph.check(&text).is_err();
        Self { graph, converses, is_long: false }
    }

    pub(crate) fn tool(&self, name: &str) -> Tool {
        let spec = self.graph.spec();
        let description = if spec.doc.is_empty() { format!("Runs the graph `{name}`.") } else { spec.doc.to_string() };
        let schema = match self.graph.schemas().input.clone() {
            _ if self.converses => object(json!({
                "type": "object",
                "properties": {MESSAGE: {"type": "string", "description": "The message to the agent."}},
                "required": [MESSAGE],
            })),
            Some(Value::Object(schema)) if schema.get("type").is_some_and(|kind| kind == "object") => schema,
            // Without a schema, the channels are unknown.
            _ => object(json!({"type": "object"})),
        };
        Tool::new(name.to_owned(), description, Arc::new(schema))
    }

    /// Converts the arguments to the graph's input. Fails if they are invalid.
    pub(crate) fn input(&self, arguments: Option<JsonObject>) -> Result<DynInput, String> {
        let mut arguments = arguments.unwrap_or_default();
        if self.converses
            && let Some(text) = arguments.remove(MESSAGE)
        {
            let message = json!({"role": "user", "content": text});
            match arguments.entry("messages").or_insert_with(|| json!([])) {
                Value::Array(messages) => messages.push(message),
                _ => return Err("`messages` must be a list".to_owned()),
            }
        }
        let input = DynInput::New(Value::Object(arguments));
        self.graph.check(&input).map_err(|error| error.to_string())?;
        Ok(input)
    }

    /// Returns the result of a call: the last message of a conversation, or the whole state.
    pub(crate) fn result(&self, state: Value) -> CallToolResult {
        let last = state["messages"].as_array().and_then(|messages| messages.last());
        if let Some(message) = last.filter(|_| self.converses)
            && let Ok(message) = serde_json::from_value::<Message>(message.clone())
            && let Body::Assistant { content, .. } = message.body
        {
            return CallToolResult::success(blocks(content));
        }
        CallToolResult::structured(state)
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

pub(crate) fn blocks(content: Content) -> Vec<ContentBlock> {
    let parts = match content {
        Content::Text(text) => return vec![ContentBlock::text(text)],
        Content::Parts(parts) => parts,
    };
    parts.into_iter().map(block).collect()
}

/// Converts a part of another message format to the form that hier uses, if there is such a form.
pub(crate) fn resolved(part: Part) -> Part {
    part.resolved().map(Cow::into_owned).unwrap_or(part)
}

fn block(part: Part) -> ContentBlock {
    match resolved(part) {
        Part::Text { text } => ContentBlock::text(text),
        Part::Image { url } => match data(&url) {
            Some((kind, data)) => ContentBlock::image(data, kind),
            None => ContentBlock::text(format!("[image: {url}]")),
        },
        Part::File { url, name, media_type } => match data(&url) {
            Some((kind, data)) if kind.starts_with("audio/") => ContentBlock::audio(data, kind),
            Some((kind, data)) => {
                let uri = format!("file:///{}", name.unwrap_or_else(|| "result".to_owned()));
                let kind = media_type.unwrap_or_else(|| kind.to_owned());
                ContentBlock::resource(ResourceContents::blob(data, uri).with_mime_type(kind))
            }
            None => ContentBlock::text(format!("[file: {url}]")),
        },
        _ => ContentBlock::text("[a part of an unsupported kind]"),
    }
}

/// Returns the media type and the Base64 data of a `data:` URL.
pub(crate) fn data(url: &str) -> Option<(&str, &str)> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((kind.strip_suffix(";base64")?, data))
}
