use hier_agents::{ChatRequest, ModelOptions, PromptCache, ToolChoice, ToolSpec};
use serde_json::{Value, json};

use super::super::shared::{list, refuse_options, schema_instruction, set, set_list, set_object, set_text};
use super::super::{WireRequest, anthropic, claude, schema};
use super::BEDROCK;
use super::content;
use super::family::{Family, claude_name};
use crate::conversation::WireConversation;
use crate::error::ModelFailure;

/// The inference options of a request, and the fields that only its model has.
struct ModelFields {
    inference: Value,
    /// Sent as `additionalModelRequestFields`.
    additional: Value,
}

/// Builds a request. Sends the schema of an answer if the model obeys it natively, and otherwise describes it.
pub(super) fn body(wire_request: &WireRequest<'_>, native: bool) -> Result<Value, ModelFailure> {
    let WireRequest { model, request, tools, .. } = *wire_request;
    let options = &request.options;
    let family = Family::of(model);
    tools.refuse_all(BEDROCK)?;
    refuse_options(BEDROCK, &[("seed", options.seed.is_some())])?;
    let conversation = WireConversation::new(request, wire_request.maker);
    let ModelFields { inference, additional } = match claude_name(model) {
        Some(name) => claude_fields(name, request, &conversation)?,
        None => other_fields(model, options)?,
    };
    let declared = declared_tools(request, family);
    let messages = content::messages(&conversation, family, !declared.is_empty());
    let mut body = json!({ "messages": messages });
    let mut system = conversation.system.clone();
    if let Some(output) = &request.output {
        match schema::ANTHROPIC.fit(&output.schema).filter(|_| native) {
            Some(schema) => {
                let schema = json!({ "name": output.name, "schema": schema.to_string() });
                let format = json!({ "type": "json_schema", "structure": { "jsonSchema": schema } });
                body["outputConfig"] = json!({ "textFormat": format });
            }
            None => system.push(schema_instruction(output)),
        }
    }
    let system: Vec<Value> = system.iter().map(|text| json!({ "text": text })).collect();
    set(&mut body, "system", (!system.is_empty()).then_some(system));
    if !declared.is_empty() {
        let mut config = json!({ "tools": declared.iter().map(|spec| tool(spec)).collect::<Vec<_>>() });
        // The model's own `tool_choice` replaces this one, because Bedrock refuses a request with both.
        let choice = options.tool_choice.as_ref().filter(|_| additional.get("tool_choice").is_none());
        set(&mut config, "toolChoice", choice.and_then(tool_choice));
        body["toolConfig"] = config;
    }
    set_object(&mut body, "inferenceConfig", inference);
    set_object(&mut body, "additionalModelRequestFields", additional);
    if let Some(cache) = options.cache.filter(|_| !family.lacks_cache()) {
        mark_cached(&mut body, cache, family);
    }
    Ok(body)
}

/// Returns the tools that the model may call. With `ToolChoice::None`, only Anthropic's models get declared tools,
/// because other models cannot be kept from calling them.
fn declared_tools(request: &ChatRequest, family: Family) -> Vec<&ToolSpec> {
    let may_call = !matches!(request.options.tool_choice, Some(ToolChoice::None)) || family == Family::Claude;
    request.tools.iter().filter(|_| may_call).collect()
}

fn tool(spec: &ToolSpec) -> Value {
    let mut tool = json!({ "name": spec.name, "inputSchema": { "json": spec.parameters } });
    set_text(&mut tool, "description", &spec.description);
    json!({ "toolSpec": tool })
}

/// Returns the choice of a tool. `Auto` is the default, and some models refuse the field.
fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Required => Some(json!({ "any": {} })),
        ToolChoice::Tool(name) => Some(json!({ "tool": { "name": name } })),
        _ => None,
    }
}

fn inference(options: &ModelOptions, max_tokens: Option<u32>, samples: bool) -> Value {
    let mut config = json!({});
    set(&mut config, "maxTokens", max_tokens);
    set(&mut config, "temperature", options.temperature.filter(|_| samples));
    set(&mut config, "topP", options.top_p.filter(|_| samples));
    set_list(&mut config, "stopSequences", &options.stop);
    config
}

/// Returns the fields for a model of Anthropic, in the terms of its own API.
fn claude_fields(
    name: &str,
    request: &ChatRequest,
    conversation: &WireConversation<'_>,
) -> Result<ModelFields, ModelFailure> {
    let options = &request.options;
    // Bedrock's default is too small for some models that think.
    let max_tokens = options.max_tokens.unwrap_or_else(|| anthropic::longest_answer(name));
    let thinking = claude::thinking(name, options, conversation, max_tokens)?;
    let samples = !thinking.is_on() && claude::takes_sampling(name);
    let mut additional = json!({});
    let binds = thinking.field.as_ref().is_some_and(|field| field.get("block_binding").is_some());
    set(&mut additional, "anthropic_beta", binds.then(|| json!([claude::BINDING.1])));
    set(&mut additional, "thinking", thinking.field);
    set(&mut additional, "output_config", thinking.effort.map(|effort| json!({ "effort": effort })));
    // Converse itself has no choice `none`, and cannot limit an answer to one call.
    let is_own = options.parallel_calls == Some(false) || matches!(options.tool_choice, Some(ToolChoice::None));
    if is_own && !request.tools.is_empty() {
        set(&mut additional, "tool_choice", anthropic::tool_choice(options));
    }
    Ok(ModelFields { inference: inference(options, Some(max_tokens), samples), additional })
}

fn other_fields(model: &str, options: &ModelOptions) -> Result<ModelFields, ModelFailure> {
    let lacking =
        [("parallel_calls", options.parallel_calls == Some(false)), ("reasoning", options.reasoning.is_some())];
    refuse_options(&format!("{BEDROCK} with the model `{model}`"), &lacking)?;
    Ok(ModelFields { inference: inference(options, options.max_tokens, true), additional: json!({}) })
}

/// Adds cache points after the system text and after the conversation so far. The first point includes the tools.
fn mark_cached(body: &mut Value, cache: PromptCache, family: Family) {
    let mut point = json!({ "type": "default" });
    if cache == PromptCache::Long && family != Family::Nova {
        point["ttl"] = json!("1h");
    }
    let point = json!({ "cachePoint": point });
    if let Some(Value::Array(system)) = body.get_mut("system") {
        system.push(point.clone());
    }
    let last = list(body, "messages").len().saturating_sub(1);
    if let Some(Value::Array(blocks)) = body.pointer_mut(&format!("/messages/{last}/content")) {
        // Bedrock refuses a cache point after a document or a video.
        let place = blocks.iter().rposition(|block| block.get("document").or_else(|| block.get("video")).is_none());
        if let Some(place) = place {
            blocks.insert(place + 1, point);
        }
    }
}
