//! OpenAI's responses. Nothing is stored there: the conversation goes with each request, and what the model thought with it,
//! encrypted.

use hier_agents::{Content, FinishReason, Reasoning, ToolChoice};
use serde_json::{Value, json};

use super::openai::sampling;
use super::shared::{bearer, field, finish, is_reasoner, lacks, list, named_schema, no_error, only, set, text, tool};
use super::{Asked, Framing, Wire, shared};
use crate::conversation::{Call, Conversation, Said, Turn, Word};
use crate::draft::{CallPiece, Draft, Tokens};
use crate::error::Failure;
use crate::media::{Media, Piece, media, pieces};

pub(super) struct Responses;

/// What is kept of a piece of reasoning, and sent back.
const KEPT: [&str; 4] = ["id", "summary", "content", "encrypted_content"];
/// What stands between two parts of a summary.
const BETWEEN: &str = "\n\n";

impl Wire for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn provider(&self) -> &'static str {
        "openai"
    }

    fn url(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn key_variable(&self) -> Option<&'static str> {
        Some("OPENAI_API_KEY")
    }

    fn endpoint(&self, _model: &str, _streamed: bool) -> String {
        "responses".to_owned()
    }

    fn headers(&self, _model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        bearer(key)
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn keeps_to_schemas(&self, model: &str) -> bool {
        shared::keeps_to_schemas(model)
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        shared::context_of_openai(model)
    }

    fn body(&self, asked: &Asked<'_>) -> Result<Value, Failure> {
        let Asked { model, request, .. } = *asked;
        let options = &request.options;
        lacks("OpenAI's responses", &[("stop", !options.stop.is_empty()), ("seed", options.seed.is_some())])?;
        let conversation = Conversation::new(request, asked.maker);
        let mut body =
            json!({ "model": model, "input": input(&conversation), "store": false, "stream": asked.streamed });
        let system = conversation.system.join("\n\n");
        set(&mut body, "instructions", Some(system).filter(|text| !text.is_empty()));
        if is_reasoner(model) || options.reasoning.is_some() {
            // Models that do not reason refuse this.
            body["include"] = json!(["reasoning.encrypted_content"]);
        }
        if let Some(effort) = &options.reasoning {
            body["reasoning"] = json!({ "effort": effort.as_str(), "summary": "auto" });
        }
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(function).collect();
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

    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure> {
        no_error(answer)?;
        for (number, item) in (0..).zip(list(answer, "output")) {
            match text(item, "type") {
                "message" => list(item, "content").iter().for_each(|part| say(draft, part)),
                "reasoning" => {
                    draft.think(number, &summary(item));
                    keep(draft, number, item);
                }
                "function_call" => {
                    let args = item.get("arguments").cloned().unwrap_or_default();
                    draft.call(Some(number), text(item, "call_id"), text(item, "name"), args);
                }
                _ => draft.keep(number, json!({ "item": item })),
            }
        }
        end(draft, answer)
    }

    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure> {
        let (item, delta) = (field(piece, "item"), text(piece, "delta"));
        let index = piece.get("output_index").and_then(Value::as_u64);
        let number = index.unwrap_or_default();
        match text(piece, "type") {
            "error" => return Err(Failure::said(piece)),
            "response.output_item.added" if text(item, "type") == "function_call" => {
                draft.piece(&call_piece(index, item, text(item, "arguments")));
            }
            "response.output_text.delta" => draft.say(delta),
            "response.refusal.delta" => draft.refuse(delta),
            "response.reasoning_summary_part.added" if has_earlier(piece) => draft.think(number, BETWEEN),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => draft.think(number, delta),
            "response.function_call_arguments.delta" => {
                draft.piece(&CallPiece { index, args: delta, ..CallPiece::default() });
            }
            "response.output_item.done" => match text(item, "type") {
                "reasoning" => keep(draft, number, item),
                "function_call" => {
                    draft.piece(&call_piece(index, item, ""));
                    draft.complete_arguments(number, text(item, "arguments"));
                }
                "message" | "" => {}
                _ => draft.keep(number, json!({ "item": item })),
            },
            "response.completed" | "response.incomplete" | "response.failed" => {
                end(draft, field(piece, "response"))?;
                draft.ended = true;
            }
            _ => {}
        }
        Ok(())
    }
}

fn call_piece<'a>(index: Option<u64>, item: &'a Value, args: &'a str) -> CallPiece<'a> {
    CallPiece { index, id: text(item, "call_id"), name: text(item, "name"), args }
}

fn has_earlier(piece: &Value) -> bool {
    piece.get("summary_index").and_then(Value::as_u64).is_some_and(|index| index > 0)
}

fn say(draft: &mut Draft, part: &Value) {
    draft.say(text(part, "text"));
    draft.refuse(text(part, "refusal"));
}

/// What people can read of a piece of reasoning.
fn summary(item: &Value) -> String {
    let texts = |name: &str| list(item, name).iter().map(|part| text(part, "text").to_owned()).collect::<Vec<_>>();
    [texts("summary").join(BETWEEN), texts("content").concat()].concat()
}

/// Keeps a piece of reasoning as it came, if the provider can read it again.
fn keep(draft: &mut Draft, number: u64, item: &Value) {
    if !text(item, "encrypted_content").is_empty() {
        draft.keep(number, only(item, &KEPT));
    }
}

/// Reads the end of an answer: how, and what it cost.
fn end(draft: &mut Draft, response: &Value) -> Result<(), Failure> {
    no_error(response)?;
    let model = text(response, "model");
    if !model.is_empty() {
        draft.model = Some(model.to_owned());
    }
    draft.finish = match text(response, "status") {
        "completed" if draft.calls_tools() => Some(FinishReason::ToolCalls),
        "completed" => Some(FinishReason::Stop),
        "incomplete" => {
            let reason = field(response, "incomplete_details").get("reason");
            finish(reason).or(Some(FinishReason::Other("incomplete".to_owned())))
        }
        status => return Err(Failure::bad_answer(format!("it is no answer (its status is `{status}`)"))),
    };
    let tokens = |path: &str| response.pointer(path).and_then(Value::as_u64);
    draft.count(Tokens {
        input: tokens("/usage/input_tokens"),
        output: tokens("/usage/output_tokens"),
        cached: tokens("/usage/input_tokens_details/cached_tokens"),
        cache_write: None,
        reasoning: tokens("/usage/output_tokens_details/reasoning_tokens"),
    });
    Ok(())
}

fn function(spec: &hier_agents::ToolSpec) -> Value {
    let mut function = tool(spec, "parameters");
    function["type"] = json!("function");
    // Unless told, the provider takes schemas to be strict, and refuses those that are not.
    function["strict"] = json!(false);
    function
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({ "type": "function", "name": name }),
        _ => json!("auto"),
    }
}

fn input(conversation: &Conversation<'_>) -> Vec<Value> {
    let mut input = Vec::new();
    for turn in &conversation.turns {
        match turn {
            Turn::User(content) => input.push(json!({ "role": "user", "content": parts(content) })),
            Turn::Model(said) => model(&mut input, said),
        }
    }
    input
}

/// What the model thought and said, its calls, each behind what led to it, and their results.
fn model(input: &mut Vec<Value>, said: &Said<'_>) {
    input.extend(said.words().into_iter().filter_map(|word| match word {
        Word::Thought(thought) => reasoning(thought),
        Word::Said(text) => {
            let part = json!({ "type": "output_text", "text": text });
            Some(json!({ "type": "message", "role": "assistant", "content": [part] }))
        }
    }));
    for call in &said.calls {
        input.extend(call.thoughts.iter().filter_map(|thought| reasoning(thought)));
        let args = call.args.to_string();
        input.push(json!({ "type": "function_call", "call_id": call.id, "name": call.name, "arguments": args }));
    }
    input.extend(said.calls.iter().map(result));
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

fn result(call: &Call<'_>) -> Value {
    let has_media = !media(&call.result).is_empty();
    let output = if has_media { parts(&call.result) } else { json!(call.result.text()) };
    json!({ "type": "function_call_output", "call_id": call.id, "output": output })
}

fn parts(content: &Content) -> Value {
    let part = |piece| match piece {
        Piece::Text(text) => json!({ "type": "input_text", "text": text }),
        Piece::Media(media) => media_part(&media),
    };
    pieces(content).into_iter().map(part).collect()
}

fn media_part(media: &Media<'_>) -> Value {
    if media.is_image {
        return json!({ "type": "input_image", "image_url": media.url });
    }
    if media.mime.starts_with("audio/") || media.mime.starts_with("video/") {
        let text = media.left_out("OpenAI's responses take documents and images");
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
