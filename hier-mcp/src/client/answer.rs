//! Answers what a server asks: at once, or between the rounds of a call.

use hier_agents::{ChatRequest, Content, FinishReason, Message, ModelOptions, Part};
use hier_core::{NodeError, Run};
use serde_json::{Value, json};

use super::options::Options;
use super::question::{Asked, Question};

/// The folders, as the server takes them.
pub(crate) fn roots(roots: &[String]) -> Value {
    let roots: Vec<Value> = roots.iter().map(|uri| json!({"uri": uri})).collect();
    json!({ "roots": roots })
}

/// Answers while the server waits.
pub(crate) async fn now(options: &Options, server: &str, tool: Option<&str>, asked: Asked) -> Result<Value, NodeError> {
    match asked {
        Asked::Roots => Ok(roots(&options.roots)),
        Asked::Model(params) => sample(options, server, &params).await,
        Asked::Person { message, url, schema } => {
            let Some(answer) = &options.answer else {
                return Ok(json!({"action": "decline"}));
            };
            let question = Question::new(server, tool, message, url, schema);
            let given = answer(question.clone()).await?;
            question.check(&given).map_err(|why| NodeError::permanent(format!("{given} does not answer it: {why}")))?;
            Ok(question.result(given))
        }
    }
}

/// Answers in the rounds of a call: a person by an interrupt of the run, a model in a step of it.
pub(crate) async fn in_run(
    options: &Options,
    server: &str,
    (tool, step): (&str, &str),
    asked: Asked,
    run: &Run,
) -> Result<Value, NodeError> {
    match asked {
        Asked::Roots => Ok(roots(&options.roots)),
        Asked::Model(params) => run.step_for(step, &params, async |params| sample(options, server, params).await).await,
        // Nobody could answer it later.
        asked @ Asked::Person { .. } if !run.is_durable() && options.answer.is_some() => {
            now(options, server, Some(tool), asked).await
        }
        Asked::Person { message, url, schema } => {
            let question = Question::new(server, Some(tool), message, url, schema);
            let asking = run.interrupt::<Value>(&question).with_schema(question.schema.clone());
            let answer = asking.check(|answer| question.check(answer)).await?;
            Ok(question.result(answer))
        }
    }
}

/// Asks the model that the client has for such requests.
async fn sample(options: &Options, server: &str, params: &Value) -> Result<Value, NodeError> {
    let Some(model) = &options.sampling else {
        return Err(NodeError::permanent(format!(
            "the MCP server `{server}` asks for a model, and the client has none for it: give it one with `.sampling(…)`"
        )));
    };
    if params.get("tools").is_some() {
        return Err(NodeError::permanent(format!(
            "the MCP server `{server}` asks for a model with tools, which it was not offered"
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
        NodeError::permanent(format!("the model that the MCP server `{server}` asked for failed: {error}"))
    })?;
    let stop = if response.finish == Some(FinishReason::Length) { "maxTokens" } else { "endTurn" };
    let name = response.model.clone().unwrap_or_else(|| model.name().to_owned());
    let text = json!({"type": "text", "text": response.text()});
    Ok(json!({"role": "assistant", "content": text, "model": name, "stopReason": stop}))
}

/// What a message of a request for a model says.
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
