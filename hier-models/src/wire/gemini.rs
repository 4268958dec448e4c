use std::fmt::Write;

use hier_agents::{Content, FinishReason, ModelOptions, Reasoning, ToolChoice, ToolSpec};
use serde_json::{Value, json};

use super::shared::{
    check_no_error, field, finish_reason, list, refuse_options, set, set_list, set_object, set_text, text, tool,
};
use super::{Dialect, DialectInfo, Framing, WireRequest, grounding, own_tools, schema, shared, thinking};
use crate::conversation::{AnsweredCall, BEGINNING, ConversationTurn, ModelTurn, Segment, WireConversation};
use crate::draft::{AnswerDraft, TokenCounts};
use crate::error::{FailureKind, ModelFailure};
use crate::media::{ContentPart, Media, content_parts, media_parts};

pub(super) struct Gemini;

/// The number of the only thought of an answer.
const THOUGHT: u64 = 0;
/// The context size of the models, in tokens.
const CONTEXT: u64 = 1_048_576;
/// The field that the provider must receive again with a call or a text.
const SIGNATURE: &str = "thoughtSignature";
const PARAMETERS: &str = "parametersJsonSchema";
/// The field that requests the calls of the provider's own tools.
pub(super) const INVOCATIONS: &str = "includeServerSideToolInvocations";

impl Dialect for Gemini {
    fn info(&self) -> &DialectInfo {
        &DialectInfo {
            name: "gemini",
            provider: "gcp.gemini",
            url: "https://generativelanguage.googleapis.com/v1beta",
            key_variable: Some("GEMINI_API_KEY"),
            path: "",
            framing: Framing::Events,
        }
    }

    fn path(&self, model: &str, streamed: bool) -> String {
        let method = if streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
        format!("{}:{method}", resource(model))
    }

    fn headers(&self, _model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect()
    }

    fn accepts_schema(&self, schema: &Value) -> bool {
        schema::GEMINI.fit(schema).is_some()
    }

    /// Models before Gemini 3 accept either tools or a schema.
    fn obeys_schemas(&self, model: &str) -> bool {
        model.starts_with("gemini-") && !["gemini-1", "gemini-2"].iter().any(|older| model.starts_with(older))
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        model.starts_with("gemini-").then_some(CONTEXT)
    }

    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
        let WireRequest { model, request, .. } = *wire_request;
        let options = &request.options;
        refuse_options("Gemini", &[("parallel_calls", options.parallel_calls == Some(false))])?;
        let conversation = WireConversation::new(request, wire_request.maker);
        let mut body = json!({ "contents": contents(&conversation, model) });
        let mut system: Vec<Value> = conversation.system.iter().map(|text| json!({ "text": text })).collect();
        let mut tools = own_tools::gemini(wire_request)?;
        let has_own = !tools.is_empty();
        if !request.tools.is_empty() {
            let functions: Vec<Value> = request.tools.iter().map(declaration).collect();
            tools.insert(0, json!({ "functionDeclarations": functions }));
            let mut config = options.tool_choice.as_ref().map_or_else(|| json!({}), tool_config);
            // If a request has both kinds of tools, the answer must contain the calls of the provider's own tools.
            set(&mut config, INVOCATIONS, has_own.then_some(true));
            set_object(&mut body, "toolConfig", config);
        }
        set(&mut body, "tools", (!tools.is_empty()).then_some(tools));
        let mut config = generation(model, options)?;
        if let Some(output) = &request.output {
            config["responseMimeType"] = json!("application/json");
            match schema::GEMINI.fit(&output.schema) {
                Some(schema) => config["responseJsonSchema"] = schema,
                None => system.push(json!({ "text": shared::schema_instruction(output) })),
            }
        }
        set(&mut body, "systemInstruction", (!system.is_empty()).then(|| json!({ "parts": system })));
        set_object(&mut body, "generationConfig", config);
        Ok(body)
    }

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
        self.read_event(draft, answer)
    }

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
        check_no_error(event)?;
        draft.set_model(text(event, "modelVersion"));
        count(draft, field(event, "usageMetadata"));
        let Some(candidate) = list(event, "candidates").first() else {
            let blocked = text(field(event, "promptFeedback"), "blockReason");
            if blocked.is_empty() {
                return Ok(());
            }
            if draft.has_begun() {
                draft.finish = Some(FinishReason::ContentFilter);
                return Ok(());
            }
            return Err(ModelFailure::new(
                FailureKind::Refused,
                format!("the provider blocked the prompt (`{blocked}`)"),
            ));
        };
        for part in list(field(candidate, "content"), "parts") {
            read_part(draft, part);
        }
        grounding::read(draft, field(candidate, "groundingMetadata"));
        draft.set_comment(text(candidate, "finishMessage"));
        let reason = finish_reason(candidate.get("finishReason")).or(draft.finish.take());
        draft.finish = match reason {
            Some(FinishReason::Stop) if draft.calls_tools() => Some(FinishReason::ToolCalls),
            reason => reason,
        };
        Ok(())
    }
}

/// Returns the model's path, by default in the collection `models`.
pub(crate) fn resource(model: &str) -> String {
    let mut path = String::with_capacity(model.len());
    for byte in model.bytes() {
        // Escapes characters that would end the path.
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    if path.contains('/') { path } else { format!("models/{path}") }
}

fn declaration(spec: &ToolSpec) -> Value {
    let mut declaration = tool(spec, PARAMETERS);
    if let Some(fitted) = schema::GEMINI.fit(&spec.parameters) {
        declaration[PARAMETERS] = fitted;
    }
    declaration
}

fn generation(model: &str, options: &ModelOptions) -> Result<Value, ModelFailure> {
    let mut config = json!({});
    set(&mut config, "temperature", options.temperature);
    set(&mut config, "topP", options.top_p);
    set(&mut config, "maxOutputTokens", options.max_tokens);
    set(&mut config, "seed", options.seed);
    set_list(&mut config, "stopSequences", &options.stop);
    set(&mut config, "thinkingConfig", thinking::gemini(model, options)?);
    Ok(config)
}

fn tool_config(choice: &ToolChoice) -> Value {
    let calling = match choice {
        ToolChoice::None => json!({ "mode": "NONE" }),
        ToolChoice::Required => json!({ "mode": "ANY" }),
        ToolChoice::Tool(name) => json!({ "mode": "ANY", "allowedFunctionNames": [name] }),
        _ => json!({ "mode": "AUTO" }),
    };
    json!({ "functionCallingConfig": calling })
}

fn read_part(draft: &mut AnswerDraft, part: &Value) {
    let signature = part.get(SIGNATURE).filter(|signature| signature.is_string());
    let kept = signature.map(|signature| json!({ SIGNATURE: signature }));
    if let Some(call) = part.get("functionCall") {
        let args = call.get("args").cloned().unwrap_or_default();
        let place = draft.add_call(None, text(call, "id"), text(call, "name"), args);
        if let Some(kept) = kept {
            draft.keep_call_fields(place, kept);
        }
        return;
    }
    if part.get("text").is_none() && part.as_object().is_some_and(|part| part.keys().any(|name| name != SIGNATURE)) {
        // Another part, such as the provider's own code execution or its result.
        return draft.keep_opaque(json!({ "part": part }));
    }
    if let Some(kept) = kept {
        draft.keep_fields(THOUGHT, kept);
    }
    if part.get("thought").and_then(Value::as_bool) == Some(true) {
        draft.add_thought(THOUGHT, text(part, "text"));
    } else {
        draft.add_text(text(part, "text"));
    }
}

/// Counts tokens. The provider counts thoughts separately from the text.
fn count(draft: &mut AnswerDraft, usage: &Value) {
    let tokens = |field: &str| usage.get(field).and_then(Value::as_u64);
    let sum = |one: Option<u64>, two: Option<u64>| match (one, two) {
        (None, None) => None,
        (one, two) => Some(one.unwrap_or(0).saturating_add(two.unwrap_or(0))),
    };
    draft.set_usage(TokenCounts {
        input: sum(tokens("promptTokenCount"), tokens("toolUsePromptTokenCount")),
        output: sum(tokens("candidatesTokenCount"), tokens("thoughtsTokenCount")),
        cached: tokens("cachedContentTokenCount"),
        cache_write: None,
        reasoning: tokens("thoughtsTokenCount"),
    });
}

fn contents(conversation: &WireConversation<'_>, model: &str) -> Vec<Value> {
    let mut contents = Vec::new();
    if !conversation.begins_with_user() {
        push(&mut contents, "user", &[json!({ "text": BEGINNING })]);
    }
    for turn in &conversation.turns {
        match turn {
            ConversationTurn::User(content) => push(&mut contents, "user", &parts(content)),
            ConversationTurn::Model(turn) => {
                push(&mut contents, "model", &model_parts(turn, model));
                push(&mut contents, "user", &turn.calls.iter().map(result).collect::<Vec<_>>());
                let seen = turn.calls.iter().flat_map(|call| media_parts(&call.result));
                push(&mut contents, "user", &seen.map(|media| media_part(&media)).collect::<Vec<_>>());
            }
        }
    }
    if contents.is_empty() {
        push(&mut contents, "user", &[json!({ "text": BEGINNING })]);
    }
    contents
}

/// Adds a content unless it is empty, which the provider refuses. Consecutive contents of the model are merged, since
/// the provider requires a user content between them.
fn push(contents: &mut Vec<Value>, role: &str, parts: &[Value]) {
    if let Some(last) = contents.last_mut().filter(|last| role == "model" && last["role"] == "model")
        && let Some(Value::Array(turn)) = last.get_mut("parts")
    {
        turn.extend_from_slice(parts);
        return;
    }
    if !parts.is_empty() {
        contents.push(json!({ "role": role, "parts": parts }));
    }
}

/// Returns the parts of the model's texts and calls, with their signatures.
fn model_parts(turn: &ModelTurn<'_>, model: &str) -> Vec<Value> {
    let signature = turn.thoughts.iter().find_map(|thought| thought.data.get(SIGNATURE));
    let opaque = |thought: &Reasoning| thought.data.get("part").cloned();
    let has_opaque = turn.thoughts.iter().any(|thought| opaque(thought).is_some());
    let mut parts: Vec<Value> = if has_opaque {
        let part = |segment| match segment {
            Segment::Thought(thought) => opaque(thought),
            Segment::Text(text) => Some(json!({ "text": text })),
        };
        turn.segments().into_iter().filter_map(part).collect()
    } else {
        turn.text.iter().map(|text| json!({ "text": text })).collect()
    };
    if let Some(signature) = signature {
        if parts.last().is_none_or(|part| part.get("text").is_none()) {
            parts.push(json!({ "text": "" }));
        }
        if let Some(last) = parts.last_mut() {
            last[SIGNATURE] = signature.clone();
        }
    }
    let is_foreign = turn.calls.iter().all(|call| signature_of(call).is_none());
    for (number, call) in turn.calls.iter().enumerate() {
        parts.extend(call.thoughts_before().filter_map(opaque));
        let mut part = json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.args } });
        set(&mut part, SIGNATURE, signature_of(call).cloned());
        if number == 0 && is_foreign && turn.current && thinking::insists_on_signatures(model) {
            part[SIGNATURE] = json!(thinking::FOREIGN_SIGNATURE);
        }
        parts.push(part);
        parts.extend(call.parts_behind().filter_map(opaque));
    }
    parts
}

fn signature_of<'a>(call: &AnsweredCall<'a>) -> Option<&'a Value> {
    call.thoughts.iter().find_map(|thought| thought.data.get(SIGNATURE))
}

fn result(call: &AnsweredCall<'_>) -> Value {
    let what = if call.failed { "error" } else { "result" };
    let response = json!({ what: call.result.text() });
    json!({ "functionResponse": { "id": call.id, "name": call.name, "response": response } })
}

/// Omits empty texts, which the provider refuses.
fn parts(content: &Content) -> Vec<Value> {
    let part = |part| match part {
        ContentPart::Text("") => None,
        ContentPart::Text(text) => Some(json!({ "text": text })),
        ContentPart::Media(media) => Some(media_part(&media)),
    };
    content_parts(content).into_iter().filter_map(part).collect()
}

fn media_part(media: &Media<'_>) -> Value {
    let (name, mut data) = match media.base64 {
        Some(base64) => ("inlineData", json!({ "data": base64 })),
        None => ("fileData", json!({ "fileUri": media.url })),
    };
    set_text(&mut data, "mimeType", media.mime);
    json!({ name: data })
}
