//! Answers to the server's requests, immediately or between the rounds of a call.

use hier_agents::{ChatRequest, Content, FinishReason, Message, ModelOptions, Part};
use hier_core::{NodeError, Run};
use serde_json::{Value, json};

use super::options::ClientOptions;
use super::question::{McpQuestion, RequestedInput};

pub(crate) fn roots(roots: &[String]) -> Value {
    let roots: Vec<Value> = roots.iter().map(|uri| json!({"uri": uri})).collect();
    json!({ "roots": roots })
}

/// Answers a request while the server waits.
pub(crate) async fn answer_now(
    options: &ClientOptions,
    server: &str,
    tool: Option<&str>,
    request: RequestedInput,
) -> Result<Value, NodeError> {
    match request {
        RequestedInput::Roots => Ok(roots(&options.roots)),
        RequestedInput::Model(params) => sample(options, server, &params).await,
        RequestedInput::Person { message, url, schema } => {
            let Some(answer) = &options.answer else {
                return Ok(json!({"action": "decline"}));
            };
            let question = McpQuestion::new(server, tool, message, url, schema);
            let given = answer(question.clone()).await?;
            question.check(&given).map_err(|why| NodeError::permanent(format!("invalid answer {given}: {why}")))?;
            Ok(question.result(given))
        }
    }
}

/// Answers a request between the rounds of a call. A person answers through an interrupt of the run, and a model
/// answers in a step of the run.
pub(crate) async fn answer_in_run(
    options: &ClientOptions,
    server: &str,
    (tool, step): (&str, &str),
    request: RequestedInput,
    run: &Run,
) -> Result<Value, NodeError> {
    match request {
        RequestedInput::Roots => Ok(roots(&options.roots)),
        RequestedInput::Model(params) => {
            run.step_for(step, &params, async |params| sample(options, server, params).await).await
        }
        // Without a checkpointer the question cannot be answered later.
        request @ RequestedInput::Person { .. } if !run.is_durable() && options.answer.is_some() => {
            answer_now(options, server, Some(tool), request).await
        }
        RequestedInput::Person { message, url, schema } => {
            let question = McpQuestion::new(server, Some(tool), message, url, schema);
            let asking = run.interrupt::<Value>(&question).with_schema(question.schema.clone());
            let answer = asking.check(|answer| question.check(answer)).await?;
            Ok(question.result(answer))
        }
    }
}

pub(crate) fn lacks_model(server: &str) -> String {
    format!("the MCP server `{server}` requests a model: set one with `.sampling(…)`")
}

/// Sends a request to the client's sampling model.
async fn sample(options: &ClientOptions, server: &str, params: &Value) -> Result<Value, NodeError> {
    let Some(model) = &options.sampling else {
        return Err(NodeError::permanent(lacks_model(server)));
    };
    if params.get("tools").is_some() {
        return Err(NodeError::permanent(format!(
            "the MCP server `{server}` requests a model with tools, which this client does not support"
        )));
    }
    let mut messages: Vec<Message> = params["systemPrompt"].as_str().map(Message::system).into_iter().collect();
    for message in params["messages"].as_array().into_iter().flatten() {
        let content = content(&message["content"]);
        let is_model = message["role"] == "assistant";
        messages.push(if is_model { Message::assistant(content) } else { Message::user(content) });
    }
    let mut asked = ModelOptions::new();
    if let Some(most) = params["maxTokens"].as_u64().and_then(|most| u32::try_from(most).ok()) {
        asked = asked.max_tokens(most);
    }
    if let Some(temperature) = params["temperature"].as_f64() {
        asked = asked.temperature(temperature);
    }
    let response = model.chat(ChatRequest::new(messages).options(asked)).await.map_err(|error| {
        NodeError::permanent(format!("the model requested by the MCP server `{server}` failed: {error}"))
    })?;
    let stop = if response.finish == Some(FinishReason::Length) { "maxTokens" } else { "endTurn" };
    let name = response.model.clone().unwrap_or_else(|| model.name().to_owned());
    let text = json!({"type": "text", "text": response.text()});
    Ok(json!({"role": "assistant", "content": text, "model": name, "stopReason": stop}))
}

fn content(content: &Value) -> Content {
    let blocks = match content {
        Value::Array(blocks) => blocks.as_slice(),
        one => std::slice::from_ref(one),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let part = |block: &Value| match block["type"].as_str() {
        Some("image") => Part::image_data(&text(&block["mimeType"]), &text(&block["data"])),
        Some("audio") => Part::file_data(&text(&block["mimeType"]), &text(&block["data"])),
        _ => Part::text(text(&block["text"])),
    };
    match blocks {
        [one] if one["type"] == "text" => Content::from(text(&one["text"])),
        several => Content::parts(several.iter().map(part)),
    }
}
