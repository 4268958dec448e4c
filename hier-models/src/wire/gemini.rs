//! Google's Gemini.

use std::fmt::Write;

use hier_agents::{Content, FinishReason, ModelOptions, Reasoning, ToolChoice, ToolSpec};
use serde_json::{Value, json};

use super::shared::{field, finish, lacks, list, no_error, set, set_list, text, tool};
use super::{Asked, Framing, Wire, schema, shared, thinking};
use crate::conversation::{BEGINNING, Call, Conversation, Said, Turn, Word};
use crate::draft::{Draft, Tokens};
use crate::error::{Failure, Kind};
use crate::media::{Media, Piece, media, pieces};

pub(super) struct Gemini;

/// The number of what a model thinks: all of an answer is one thought.
const THOUGHT: u64 = 0;
/// The context of the models, in tokens.
const CONTEXT: u64 = 1_048_576;
/// What the provider needs to get back, beside a call or a text.
const SIGNATURE: &str = "thoughtSignature";
/// The field that has the schema of a tool.
const PARAMETERS: &str = "parametersJsonSchema";

impl Wire for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn provider(&self) -> &'static str {
        "gcp.gemini"
    }

    fn url(&self) -> &'static str {
        "https://generativelanguage.googleapis.com/v1beta"
    }

    fn key_variable(&self) -> Option<&'static str> {
        Some("GEMINI_API_KEY")
    }

    fn endpoint(&self, model: &str, streamed: bool) -> String {
        let method = if streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
        format!("{}:{method}", resource(model))
    }

    fn headers(&self, _model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect()
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn takes(&self, schema: &Value) -> bool {
        schema::GEMINI.fit(schema).is_some()
    }

    /// Models before 3 take either tools or a schema.
    fn keeps_to_schemas(&self, model: &str) -> bool {
        model.starts_with("gemini-") && !["gemini-1", "gemini-2"].iter().any(|older| model.starts_with(older))
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        model.starts_with("gemini-").then_some(CONTEXT)
    }

    fn body(&self, asked: &Asked<'_>) -> Result<Value, Failure> {
        let Asked { model, request, .. } = *asked;
        let options = &request.options;
        lacks("Gemini", &[("parallel_calls", options.parallel_calls == Some(false))])?;
        let conversation = Conversation::new(request, asked.maker);
        let mut body = json!({ "contents": contents(&conversation, model) });
        let mut system: Vec<Value> = conversation.system.iter().map(|text| json!({ "text": text })).collect();
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request.tools.iter().map(declaration).collect();
            body["tools"] = json!([{ "functionDeclarations": tools }]);
            set(&mut body, "toolConfig", options.tool_choice.as_ref().map(tool_config));
        }
        let mut config = generation(model, options)?;
        if let Some(output) = &request.output {
            config["responseMimeType"] = json!("application/json");
            match schema::GEMINI.fit(&output.schema) {
                Some(schema) => config["responseJsonSchema"] = schema,
                None => system.push(json!({ "text": shared::wanted(output) })),
            }
        }
        set(&mut body, "systemInstruction", (!system.is_empty()).then(|| json!({ "parts": system })));
        set(&mut body, "generationConfig", Some(config).filter(|config| *config != json!({})));
        Ok(body)
    }

    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure> {
        self.piece(draft, answer)
    }

    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure> {
        no_error(piece)?;
        let model = text(piece, "modelVersion");
        if !model.is_empty() {
            draft.model = Some(model.to_owned());
        }
        count(draft, field(piece, "usageMetadata"));
        let Some(candidate) = list(piece, "candidates").first() else {
            let blocked = text(field(piece, "promptFeedback"), "blockReason");
            if blocked.is_empty() {
                return Ok(());
            }
            if draft.has_begun() {
                draft.finish = Some(FinishReason::ContentFilter);
                return Ok(());
            }
            return Err(Failure::new(Kind::Refused, format!("the prompt was blocked ({blocked})")));
        };
        for part in list(field(candidate, "content"), "parts") {
            read_part(draft, part);
        }
        draft.remark(text(candidate, "finishMessage"));
        let reason = finish(candidate.get("finishReason")).or(draft.finish.take());
        draft.finish = match reason {
            Some(FinishReason::Stop) if draft.calls_tools() => Some(FinishReason::ToolCalls),
            reason => reason,
        };
        Ok(())
    }
}

/// The model's path: its name in a collection, unless it says which.
pub(crate) fn resource(model: &str) -> String {
    let mut path = String::with_capacity(model.len());
    for byte in model.bytes() {
        // What would end the path, or begin another, is no part of a name.
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

fn generation(model: &str, options: &ModelOptions) -> Result<Value, Failure> {
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

fn read_part(draft: &mut Draft, part: &Value) {
    let signature = part.get(SIGNATURE).filter(|signature| signature.is_string());
    let kept = signature.map(|signature| json!({ SIGNATURE: signature }));
    if let Some(call) = part.get("functionCall") {
        let args = call.get("args").cloned().unwrap_or_default();
        let place = draft.call(None, text(call, "id"), text(call, "name"), args);
        if let Some(kept) = kept {
            draft.keep_of_call(place, kept);
        }
        return;
    }
    if part.get("text").is_none() && part.as_object().is_some_and(|part| part.keys().any(|name| name != SIGNATURE)) {
        // Code that the provider runs itself, and its result.
        return draft.keep_opaque(json!({ "part": part }));
    }
    if let Some(kept) = kept {
        draft.keep(THOUGHT, kept);
    }
    if part.get("thought").and_then(Value::as_bool) == Some(true) {
        draft.think(THOUGHT, text(part, "text"));
    } else {
        draft.say(text(part, "text"));
    }
}

/// Counts tokens. What the model thinks stands beside what it says.
fn count(draft: &mut Draft, usage: &Value) {
    let tokens = |field: &str| usage.get(field).and_then(Value::as_u64);
    let sum = |one: Option<u64>, two: Option<u64>| match (one, two) {
        (None, None) => None,
        (one, two) => Some(one.unwrap_or(0).saturating_add(two.unwrap_or(0))),
    };
    draft.count(Tokens {
        input: sum(tokens("promptTokenCount"), tokens("toolUsePromptTokenCount")),
        output: sum(tokens("candidatesTokenCount"), tokens("thoughtsTokenCount")),
        cached: tokens("cachedContentTokenCount"),
        cache_write: None,
        reasoning: tokens("thoughtsTokenCount"),
    });
}

fn contents(conversation: &Conversation<'_>, model: &str) -> Vec<Value> {
    let mut contents = Vec::new();
    if !conversation.begins_with_user() {
        push(&mut contents, "user", &[json!({ "text": BEGINNING })]);
    }
    for turn in &conversation.turns {
        match turn {
            Turn::User(content) => push(&mut contents, "user", &parts(content)),
            Turn::Model(said) => {
                push(&mut contents, "model", &said_parts(said, model));
                push(&mut contents, "user", &said.calls.iter().map(result).collect::<Vec<_>>());
                let seen = said.calls.iter().flat_map(|call| media(&call.result));
                push(&mut contents, "user", &seen.map(|media| media_part(&media)).collect::<Vec<_>>());
            }
        }
    }
    if contents.is_empty() {
        push(&mut contents, "user", &[json!({ "text": BEGINNING })]);
    }
    contents
}

/// Adds what somebody says, unless it is nothing, which the provider refuses. What the model says twice in a row is one content: the
/// provider wants a user before each of its calls.
fn push(contents: &mut Vec<Value>, role: &str, parts: &[Value]) {
    if let Some(last) = contents.last_mut().filter(|last| role == "model" && last["role"] == "model")
        && let Some(Value::Array(said)) = last.get_mut("parts")
    {
        said.extend_from_slice(parts);
        return;
    }
    if !parts.is_empty() {
        contents.push(json!({ "role": role, "parts": parts }));
    }
}

/// What the model said and called, each with its signature.
fn said_parts(said: &Said<'_>, model: &str) -> Vec<Value> {
    let signature = said.thoughts.iter().find_map(|thought| thought.data.get(SIGNATURE));
    let opaque = |thought: &Reasoning| thought.data.get("part").cloned();
    let has_opaque = said.thoughts.iter().any(|thought| opaque(thought).is_some());
    let mut parts: Vec<Value> = if has_opaque {
        let part = |word| match word {
            Word::Thought(thought) => opaque(thought),
            Word::Said(text) => Some(json!({ "text": text })),
        };
        said.words().into_iter().filter_map(part).collect()
    } else {
        said.text.iter().map(|text| json!({ "text": text })).collect()
    };
    if let Some(signature) = signature {
        if parts.last().is_none_or(|part| part.get("text").is_none()) {
            parts.push(json!({ "text": "" }));
        }
        if let Some(last) = parts.last_mut() {
            last[SIGNATURE] = signature.clone();
        }
    }
    let is_foreign = said.calls.iter().all(|call| signature_of(call).is_none());
    for (number, call) in said.calls.iter().enumerate() {
        parts.extend(call.thoughts.iter().filter_map(|thought| opaque(thought)));
        let mut part = json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.args } });
        set(&mut part, SIGNATURE, signature_of(call).cloned());
        if number == 0 && is_foreign && said.current && thinking::insists_on_signatures(model) {
            part[SIGNATURE] = json!(thinking::FOREIGN_SIGNATURE);
        }
        parts.push(part);
    }
    parts
}

fn signature_of<'a>(call: &Call<'a>) -> Option<&'a Value> {
    call.thoughts.iter().find_map(|thought| thought.data.get(SIGNATURE))
}

fn result(call: &Call<'_>) -> Value {
    let what = if call.failed { "error" } else { "result" };
    let response = json!({ what: call.result.text() });
    json!({ "functionResponse": { "id": call.id, "name": call.name, "response": response } })
}

/// What is said, without empty texts, which the provider refuses.
fn parts(content: &Content) -> Vec<Value> {
    let part = |piece| match piece {
        Piece::Text("") => None,
        Piece::Text(text) => Some(json!({ "text": text })),
        Piece::Media(media) => Some(media_part(&media)),
    };
    pieces(content).into_iter().filter_map(part).collect()
}

fn media_part(media: &Media<'_>) -> Value {
    let (name, mut data) = match media.base64 {
        Some(base64) => ("inlineData", json!({ "data": base64 })),
        None => ("fileData", json!({ "fileUri": media.url })),
    };
    set(&mut data, "mimeType", Some(media.mime).filter(|media_type| !media_type.is_empty()));
    json!({ name: data })
}
