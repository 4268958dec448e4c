//! The tools that a request brings, such as those of an AG-UI client.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::model::ToolSpec;
use hier_core::NodeError;

const MOST_TOOLS: usize = 128;

/// The maximum size of the tools of a request, in bytes of JSON.
const MOST_BYTES: usize = 256 * 1024;

/// Tools that a client describes in its request and runs itself. To accept such tools, list them as a
/// [`Toolset`](crate::Toolset) in the agent: `tools: [lookup, |context| &context.client_tools]`.
///
/// A call interrupts the run with a [`RequestedCall`](crate::RequestedCall), and the client's answer is the result of
/// the call. By default, the [trust labels](crate::TrustLabels) of the tools say that their results are untrusted, and
/// that their calls send data. If a tool has the name of another tool or of a subagent of the agent, the run fails.
///
/// ```
/// use hier_agents::ClientTools;
/// use hier_agents::prelude::*;
/// use hier_core::checkpoint::MemorySaver;
/// use hier_testkit::ScriptedModel;
/// use serde_json::json;
///
/// graph! {
///     Desk<MessagesState> = Agent { tools: [|context| &context.client_tools] }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// // The `configurable` of a request: `RunRequest::configurable` in a server's context function.
/// let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
/// let tools = json!([{"name": "show", "description": "Shows a text.", "parameters": parameters}]);
/// let configurable = [("client_tools".to_owned(), tools)].into_iter().collect();
///
/// let model = ScriptedModel::new([Message::call("show", json!({"text": "Hi"})), Message::assistant("Shown.")]);
/// let context = BaseContext::new(model).client_tools(ClientTools::of_request(&configurable)?);
/// let desk = Desk::compile().checkpointer(MemorySaver::new());
/// let asked = desk.invoke(Message::user("Greet me.")).thread("t").context(context.clone()).await?;
/// let Outcome::Interrupted(asked) = asked else { panic!("no call") };
/// assert_eq!(asked.questions[0].value["toolCall"]["args"], json!({"text": "Hi"}));
/// let out = desk.invoke(Command::resume("ok")).thread("t").context(context).await?;
/// assert_eq!(out.text(), "Shown.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientTools {
    pub(crate) tools: Arc<[ToolSpec]>,
}

impl ClientTools {
    /// Reads the tools from the `configurable` of a request: from its list `client_tools`, or from the tools of an
    /// AG-UI client. Each tool has a `name`, and optionally a `description` and `parameters`, which is the JSON Schema
    /// of an object.
    ///
    /// # Errors
    ///
    /// Fails if a tool has an invalid name or schema, if two tools have the same name, if there are more than 128
    /// tools, or if the tools have more than 256 KiB of JSON.
    pub fn of_request(configurable: &Map<String, Value>) -> Result<Self, NodeError> {
        let of_agui = configurable.get("ag_ui").and_then(|given| given.get("tools"));
        let given = configurable.get("client_tools").or(of_agui).filter(|given| !given.is_null());
        let Some(given) = given else { return Ok(Self::default()) };
        read_tools(given).map(|tools| Self { tools: tools.into() }).map_err(NodeError::permanent)
    }
}

fn read_tools(given: &Value) -> Result<Vec<ToolSpec>, String> {
    let given = given.as_array().ok_or("the tools of the request are not a list")?;
    if given.len() > MOST_TOOLS {
        return Err(format!("the request has {} tools: send at most {MOST_TOOLS}", given.len()));
    }
    let bytes = given.iter().map(|tool| tool.to_string().len()).sum::<usize>();
    if bytes > MOST_BYTES {
        return Err(format!("the tools of the request have {bytes} bytes: send at most {MOST_BYTES}"));
    }
    let mut names = BTreeSet::new();
    let read = |(place, tool): (usize, &Value)| {
        let spec = read_tool(tool).map_err(|what| format!("the tool {place} of the request: {what}"))?;
        if !names.insert(spec.name.clone()) {
            return Err(format!("the request has two tools `{}`: rename one", spec.name));
        }
        Ok(spec)
    };
    given.iter().enumerate().map(read).collect()
}

fn read_tool(tool: &Value) -> Result<ToolSpec, String> {
    let text = |field: &str| tool.get(field).and_then(Value::as_str);
    let name = text("name").ok_or("it has no `name`")?;
    if let Some(mistake) = hier_spec::names::callable("tool", name) {
        return Err(mistake);
    }
    let parameters = match tool.get("parameters") {
        None | Some(Value::Null) => json!({ "type": "object", "properties": {} }),
        Some(schema) if is_object_schema(schema) => schema.clone(),
        Some(_) => return Err(format!("the `parameters` of `{name}` are not the JSON Schema of an object")),
    };
    Ok(ToolSpec { name: name.to_owned(), description: text("description").unwrap_or_default().to_owned(), parameters })
}

/// Returns true for the schema of an object whose properties have schemas.
fn is_object_schema(schema: &Value) -> bool {
    let is_schema = |schema: &Value| schema.is_object() || schema.is_boolean();
    let has_properties = schema
        .get("properties")
        .is_none_or(|properties| properties.as_object().is_some_and(|properties| properties.values().all(is_schema)));
    let has_required = schema
        .get("required")
        .is_none_or(|names| names.as_array().is_some_and(|names| names.iter().all(Value::is_string)));
    schema.get("type").is_some_and(|kind| kind == "object") && has_properties && has_required
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tools: &Value) -> Result<Vec<String>, String> {
        read_tools(tools).map(|tools| tools.into_iter().map(|tool| tool.name).collect())
    }

    #[test]
    fn tools_of_both_protocols_are_read() {
        let tools = json!([{ "name": "show", "description": "Shows.", "parameters": { "type": "object" } }, { "name": "hide" }]);
        for configurable in [json!({ "client_tools": tools }), json!({ "ag_ui": { "tools": tools, "context": [] } })] {
            let Value::Object(configurable) = configurable else { panic!("no object") };
            let found = ClientTools::of_request(&configurable).expect("tools").tools;
            assert_eq!((found.len(), &*found[0].description, &*found[1].name), (2, "Shows.", "hide"));
            assert_eq!(found[1].parameters, json!({ "type": "object", "properties": {} }));
        }
        assert!(ClientTools::of_request(&Map::new()).expect("no tools").tools.is_empty());
    }

    #[test]
    fn invalid_tools_are_refused() {
        let tool = |name: &str, parameters: Value| json!({ "name": name, "parameters": parameters });
        let empty = json!({ "type": "object" });
        for (tools, reason) in [
            (json!({}), "not a list"),
            (json!([{ "description": "Shows." }]), "the tool 0 of the request: it has no `name`"),
            (json!([tool("two words", empty.clone())]), "models cannot call the tool `two words`"),
            (json!([tool("a", empty.clone()), tool("a", empty.clone())]), "two tools `a`"),
            (json!([tool("a", json!("object"))]), "the `parameters` of `a` are not the JSON Schema of an object"),
            (json!([tool("a", json!({ "type": "string" }))]), "not the JSON Schema of an object"),
            (json!([tool("a", json!({ "type": "object", "properties": { "b": 5 } }))]), "not the JSON Schema"),
            (json!([tool("a", json!({ "type": "object", "required": "b" }))]), "not the JSON Schema"),
            (json!(vec![json!({}); 129]), "the request has 129 tools: send at most 128"),
            (json!([{ "name": "a", "description": "x".repeat(300_000) }]), "send at most 262144"),
        ] {
            let found = read(&tools).expect_err("it is refused");
            assert!(found.contains(reason), "{reason} in {found}");
        }
    }
}
