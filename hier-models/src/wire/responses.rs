//! OpenAI's responses API. OpenAI stores nothing: each request contains the conversation, with the model's thoughts
//! encrypted.

use hier_agents::{Content, FinishReason, Reasoning, ToolChoice};
use serde_json::{Value, json};

use super::openai::sampling;
use super::shared::{
    check_no_error, field, finish_reason, is_reasoner, list, named_schema, pick_fields, refuse_options, set, set_text,
    text, tool,
};
use super::tool_search::{self, DeferredTools};
use super::{Dialect, DialectInfo, Framing, WireRequest, own_tools, shared, thinking};
use crate::conversation::{AnsweredCall, ConversationTurn, ModelTurn, Segment, WireConversation};
use crate::draft::{AnswerDraft, CallDelta, TokenCounts};
use crate::error::ModelFailure;
use crate::media::{ContentPart, Media, content_parts, media_parts};

pub(super) struct Responses;

/// The fields of a reasoning item that are kept and sent back.
const KEPT: [&str; 4] = ["id", "summary", "content", "encrypted_content"];
/// The field with the namespace of a call.
const NAMESPACE: &str = "namespace";
/// The field that separates a message's comments on its work from its answer. Without it, the model may end its work
/// too early.
const PHASE: &str = "phase";
/// The separator of the parts of a summary.
const BETWEEN: &str = "\n\n";

impl Dialect for Responses {
    fn info(&self) -> &DialectInfo {
        &DialectInfo {
            name: "responses",
            provider: "openai",
            url: "https://api.openai.com/v1",
            key_variable: Some("OPENAI_API_KEY"),
            path: "responses",
            framing: Framing::Events,
        }
    }

    fn obeys_schemas(&self, model: &str) -> bool {
        shared::obeys_schemas(model)
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        shared::context_of_openai(model)
    }

    fn searches_tools(&self, model: &str) -> Option<bool> {
        Some(tool_search::is_in_openai(model))
    }

    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
        let WireRequest { model, request, .. } = *wire_request;
        let options = &request.options;
        refuse_options("OpenAI's responses", &[("stop", !options.stop.is_empty()), ("seed", options.seed.is_some())])?;
        let conversation = WireConversation::new(request, wire_request.maker);
        let deferred = DeferredTools::of(wire_request);
        let mut input = input(&conversation);
        deferred.clean_items(&mut input);
        let mut body = json!({ "model": model, "input": input, "store": false, "stream": wire_request.streamed });
        set_text(&mut body, "instructions", &conversation.system.join("\n\n"));
        if is_reasoner(model) || options.reasoning.is_some() {
            // Other models refuse this field.
            body["include"] = json!(["reasoning.encrypted_content"]);
        }
        if let Some(effort) = &options.reasoning {
            body["reasoning"] = json!({ "effort": thinking::openai(model, effort), "summary": "auto" });
        }
        let mut tools: Vec<Value> = request.tools.iter().map(|spec| deferred.mark(spec, function(spec))).collect();
        tools.extend(own_tools::responses(wire_request)?);
        if !tools.is_empty() {
            body["tools"] = tools.into();
            set(&mut body, "tool_choice", options.tool_choice.as_ref().map(tool_choice));
            set(&mut body, "parallel_tool_calls", options.parallel_calls);
        }
        if let Some(output) = &request.output {
            let mut format = named_schema(output);
            format["type"] = json!("json_schema");
            body["text"] = json!({ "format": format });
        }
        sampling(&mut body, model, options);
        set(&mut body, "max_output_tokens", options.max_tokens);
        Ok(body)
    }

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
        check_no_error(answer)?;
        for (number, item) in (0..).zip(list(answer, "output")) {
            match text(item, "type") {
                "message" => {
                    keep_phase(draft, number, item);
                    for part in list(item, "content") {
                        read_text(draft, part);
                    }
                    read_annotations(draft, item);
                }
                "reasoning" => {
                    draft.add_thought(number, &summary(item));
                    keep_reasoning(draft, number, item);
                }
                "function_call" => {
                    let args = item.get("arguments").cloned().unwrap_or_default();
                    let call = draft.add_call(Some(number), text(item, "call_id"), text(item, "name"), args);
                    keep_namespace(draft, call, item);
                }
                _ => draft.keep_fields(number, json!({ "item": item })),
            }
        }
        read_end(draft, answer)
    }

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
        let (item, delta) = (field(event, "item"), text(event, "delta"));
        let index = event.get("output_index").and_then(Value::as_u64);
        let number = index.unwrap_or_default();
        match text(event, "type") {
            "error" => return Err(ModelFailure::from_error_body(event)),
            "response.output_item.added" if text(item, "type") == "function_call" => {
                let call = draft.add_call_delta(&call_piece(index, item, text(item, "arguments")));
                keep_namespace(draft, call, item);
            }
            "response.output_item.added" if text(item, "type") == "message" => keep_phase(draft, number, item),
            "response.output_text.delta" => draft.add_text(delta),
            "response.refusal.delta" => draft.add_refusal(delta),
            "response.reasoning_summary_part.added" if has_earlier(event) => draft.add_thought(number, BETWEEN),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                draft.add_thought(number, delta);
            }
            "response.function_call_arguments.delta" => {
                draft.add_call_delta(&CallDelta { index, args: delta, ..CallDelta::default() });
            }
            "response.output_item.done" => match text(item, "type") {
                "reasoning" => keep_reasoning(draft, number, item),
                "function_call" => {
                    let call = draft.add_call_delta(&call_piece(index, item, ""));
                    keep_namespace(draft, call, item);
                    draft.complete_arguments(number, text(item, "arguments"));
                }
                "message" => read_annotations(draft, item),
                "" => {}
                _ => draft.keep_fields(number, json!({ "item": item })),
            },
            "response.completed" | "response.incomplete" | "response.failed" => {
                read_end(draft, field(event, "response"))?;
                draft.ended = true;
            }
            _ => {}
        }
        Ok(())
    }
}

fn call_piece<'a>(index: Option<u64>, item: &'a Value, args: &'a str) -> CallDelta<'a> {
    CallDelta { index, id: text(item, "call_id"), name: text(item, "name"), args }
}

fn has_earlier(event: &Value) -> bool {
    event.get("summary_index").and_then(Value::as_u64).is_some_and(|index| index > 0)
}

fn read_text(draft: &mut AnswerDraft, part: &Value) {
    draft.add_text(text(part, "text"));
    draft.add_refusal(text(part, "refusal"));
}

/// Reads the citations of a message whose text has been read. The positions of a citation count the characters of its
/// part.
fn read_annotations(draft: &mut AnswerDraft, item: &Value) {
    let parts = list(item, "content");
    let whole: String = parts.iter().flat_map(|part| [text(part, "text"), text(part, "refusal")]).collect();
    let mut base = draft.ends_with(&whole).then(|| draft.text_len() - whole.len());
    for part in parts {
        shared::read_annotations(draft, base, list(part, "annotations"));
        base = base.map(|base| base + text(part, "text").len() + text(part, "refusal").len());
    }
}

/// Returns the readable text of a reasoning item.
fn summary(item: &Value) -> String {
    let texts = |name: &str| list(item, name).iter().map(|part| text(part, "text").to_owned()).collect::<Vec<_>>();
    [texts("summary").join(BETWEEN), texts("content").concat()].concat()
}

/// Keeps a reasoning item, if the provider can read it again.
fn keep_reasoning(draft: &mut AnswerDraft, number: u64, item: &Value) {
    if !text(item, "encrypted_content").is_empty() {
        draft.keep_fields(number, pick_fields(item, &KEPT));
    }
}

/// Keeps the namespace of a call, without which the provider does not recognize its tool.
fn keep_namespace(draft: &mut AnswerDraft, call: usize, item: &Value) {
    if !text(item, NAMESPACE).is_empty() {
        draft.keep_call_fields(call, pick_fields(item, &[NAMESPACE]));
    }
}

/// Keeps the phase of a message whose text follows.
fn keep_phase(draft: &mut AnswerDraft, number: u64, item: &Value) {
    if !text(item, PHASE).is_empty() {
        draft.keep_fields(number, pick_fields(item, &[PHASE]));
    }
}

/// Reads the finish reason and the usage of an answer.
fn read_end(draft: &mut AnswerDraft, response: &Value) -> Result<(), ModelFailure> {
    check_no_error(response)?;
    draft.set_model(text(response, "model"));
    draft.finish = match text(response, "status") {
        "completed" if draft.calls_tools() => Some(FinishReason::ToolCalls),
        "completed" => Some(FinishReason::Stop),
        "incomplete" => {
            let reason = field(response, "incomplete_details").get("reason");
            finish_reason(reason).or(Some(FinishReason::Other("incomplete".to_owned())))
        }
        status => return Err(ModelFailure::bad_answer(format!("the reply has the status `{status}`"))),
    };
    let tokens = |path: &str| response.pointer(path).and_then(Value::as_u64);
    draft.set_usage(TokenCounts {
        input: tokens("/usage/input_tokens"),
        output: tokens("/usage/output_tokens"),
        cached: tokens("/usage/input_tokens_details/cached_tokens"),
        cache_write: tokens("/usage/input_tokens_details/cache_write_tokens"),
        reasoning: tokens("/usage/output_tokens_details/reasoning_tokens"),
    });
    Ok(())
}

fn function(spec: &hier_agents::ToolSpec) -> Value {
    let mut function = tool(spec, "parameters");
    function["type"] = json!("function");
    // By default, the provider treats schemas as strict, and refuses schemas that are not strict.
    function["strict"] = json!(false);
    function
}

fn tool_choice(choice: &ToolChoice) -> Value {
    shared::tool_choice(choice, |name| json!({ "type": "function", "name": name }))
}

fn input(conversation: &WireConversation<'_>) -> Vec<Value> {
    let mut input = Vec::new();
    for turn in &conversation.turns {
        match turn {
            ConversationTurn::User(content) => input.push(json!({ "role": "user", "content": parts(content) })),
            ConversationTurn::Model(turn) => push_model_turn(&mut input, turn),
        }
    }
    input
}

/// Adds the model's thoughts and texts, then its calls, then the results. Each call follows the thoughts that led to
/// it.
fn push_model_turn(input: &mut Vec<Value>, turn: &ModelTurn<'_>) {
    let mut phase = None;
    for segment in turn.segments() {
        match segment {
            Segment::Thought(thought) => {
                phase = thought.data.get(PHASE).or(phase);
                input.extend(reasoning(thought));
            }
            Segment::Text(text) => {
                let part = json!({ "type": "output_text", "text": text });
                let mut item = json!({ "type": "message", "role": "assistant", "content": [part] });
                set(&mut item, PHASE, phase.cloned());
                input.push(item);
            }
        }
    }
    for call in &turn.calls {
        input.extend(call.thoughts_before().filter_map(reasoning));
        let args = call.args.to_string();
        let mut item = json!({ "type": "function_call", "call_id": call.id, "name": call.name, "arguments": args });
        set(&mut item, NAMESPACE, call.thoughts.iter().find_map(|thought| thought.data.get(NAMESPACE)).cloned());
        input.push(item);
        input.extend(call.parts_behind().filter_map(reasoning));
    }
    input.extend(turn.calls.iter().map(result));
}

fn reasoning(thought: &Reasoning) -> Option<Value> {
    if let Some(item) = thought.data.get("item") {
        return Some(item.clone());
    }
    let mut item = thought.data.clone();
    item.get("encrypted_content")?;
    item["type"] = json!("reasoning");
    if item.get("summary").is_none() {
        item["summary"] = json!([]);
    }
    Some(item)
}

fn result(call: &AnsweredCall<'_>) -> Value {
    let has_media = !media_parts(&call.result).is_empty();
    let output = if has_media { parts(&call.result) } else { json!(call.result.text()) };
    json!({ "type": "function_call_output", "call_id": call.id, "output": output })
}

fn parts(content: &Content) -> Value {
    let part = |part| match part {
        ContentPart::Text(text) => json!({ "type": "input_text", "text": text }),
        ContentPart::Media(media) => media_part(&media),
    };
    content_parts(content).into_iter().map(part).collect()
}

fn media_part(media: &Media<'_>) -> Value {
    if media.is_image {
        return json!({ "type": "input_image", "image_url": media.url });
    }
    if media.mime.starts_with("audio/") || media.mime.starts_with("video/") {
        let text = media.omission_note("OpenAI's responses accept only documents and images");
        return json!({ "type": "input_text", "text": text });
    }
    let mut part = json!({ "type": "input_file" });
    if media.base64.is_some() {
        part["filename"] = json!(media.name.unwrap_or("file"));
        part["file_data"] = json!(media.url);
    } else {
        part["file_url"] = json!(media.url);
    }
    part
}
