//! Functions that several dialects share.

use hier_agents::{ChatRequest, Citation, FinishReason, ModelOptions, OutputSpec, ToolChoice, ToolSpec};
use serde_json::{Value, json};

use super::schema;
use crate::conversation::WireConversation;
use crate::draft::{AnswerDraft, Passage};
use crate::error::ModelFailure;

/// The providers' finish reasons, in lower case.
const REASONS: [(&[&str], FinishReason); 4] = [
    (&["stop", "end_turn", "stop_sequence", "eos", "complete"], FinishReason::Stop),
    (
        &["length", "model_length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"],
        FinishReason::Length,
    ),
    (&["tool_calls", "tool_use", "tool_call", "function_call"], FinishReason::ToolCalls),
    (
        &[
            "content_filter",
            "content_filtered",
            "guardrail_intervened",
            "sensitive",
            "refusal",
            "safety",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "model_armor",
            "image_safety",
            "image_prohibited_content",
            "image_recitation",
        ],
        FinishReason::ContentFilter,
    ),
];

/// Finish reasons of answers that the provider aborted.
const ABORTED: [&str; 4] = ["error", "network_error", "insufficient_system_resource", "abort"];

/// Parses a finish reason. The text "null" is not a reason.
pub(super) fn finish_reason(value: Option<&Value>) -> Option<FinishReason> {
    let text = value?.as_str().filter(|text| !text.is_empty() && *text != "null")?;
    let name = text.to_ascii_lowercase();
    let known = REASONS.iter().find(|(names, _)| names.contains(&&*name)).map(|(_, reason)| reason.clone());
    Some(known.unwrap_or_else(|| FinishReason::Other(text.to_owned())))
}

pub(super) fn check_not_aborted(finish: Option<&FinishReason>) -> Result<(), ModelFailure> {
    match finish {
        Some(FinishReason::Other(reason)) if ABORTED.contains(&&**reason) => {
            Err(ModelFailure::unavailable(format!("the provider aborted the reply (`{reason}`)")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_no_error(answer: &Value) -> Result<(), ModelFailure> {
    match answer.get("error") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(ModelFailure::from_error_body(answer)),
    }
}

/// Returns the text of a field, or an empty text.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the list in a field, or an empty list.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns a field, or null.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

pub(super) fn set<T: Into<Value>>(object: &mut Value, field: &str, value: Option<T>) {
    if let Some(value) = value {
        object[field] = value.into();
    }
}

/// Sets a field unless the list is empty.
pub(super) fn set_list(object: &mut Value, field: &str, list: &[String]) {
    set(object, field, (!list.is_empty()).then(|| json!(list)));
}

/// Sets a field unless the text is empty.
pub(super) fn set_text(object: &mut Value, field: &str, text: &str) {
    set(object, field, Some(text).filter(|text| !text.is_empty()));
}

/// Sets a field unless the object is empty.
pub(super) fn set_object(object: &mut Value, field: &str, value: Value) {
    set(object, field, Some(value).filter(|value| *value != json!({})));
}

/// Reads citations in OpenAI's format. `base` is the start of their text in the answer, if it is known.
pub(super) fn read_annotations(draft: &mut AnswerDraft, base: Option<usize>, annotations: &[Value]) {
    for annotation in annotations {
        // Chat completions nest the fields.
        let source = annotation.get(text(annotation, "type")).filter(|source| source.is_object()).unwrap_or(annotation);
        let owned = |name: &str| Some(text(source, name).to_owned()).filter(|text| !text.is_empty());
        let index = |name: &str| source.get(name)?.as_u64()?.try_into().ok();
        let mut citation = Citation::default();
        citation.url = owned("url");
        citation.title = owned("title").or_else(|| owned("filename"));
        citation.cited_text = owned("content");
        citation.file_id = owned("file_id");
        let passage = match (base, index("start_index"), index("end_index")) {
            (Some(base), Some(start), Some(end)) => Passage::Characters(base, start..end),
            _ => Passage::Unknown,
        };
        draft.cite(citation, passage);
    }
}

/// Returns an object of the listed fields that are not null.
pub(super) fn pick_fields(value: &Value, fields: &[&str]) -> Value {
    let kept = fields.iter().filter_map(|name| Some((*name, value.get(name)?))).filter(|(_, value)| !value.is_null());
    kept.map(|(name, value)| (name.to_owned(), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

/// Returns a tool. `schema` is the name of the field for the schema of the tool's parameters.
pub(super) fn tool(spec: &ToolSpec, schema: &str) -> Value {
    let mut tool = json!({ "name": spec.name, schema: spec.parameters });
    set_text(&mut tool, "description", &spec.description);
    tool
}

/// Returns the instructions as a single message. The chat templates of some models refuse a second system message.
pub(super) fn system_message(conversation: &WireConversation<'_>) -> Option<Value> {
    let text = conversation.system.join("\n\n");
    (!text.is_empty()).then(|| json!({ "role": "system", "content": text }))
}

/// Returns the tools of a request in OpenAI's format.
pub(super) fn functions(request: &ChatRequest) -> Option<Value> {
    let function = |spec| json!({ "type": "function", "function": tool(spec, "parameters") });
    (!request.tools.is_empty()).then(|| request.tools.iter().map(function).collect())
}

/// Fails if one of these options is set. The provider lacks them.
pub(super) fn refuse_options(provider: &str, options: &[(&str, bool)]) -> Result<(), ModelFailure> {
    match options.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((name, _)) => Err(ModelFailure::refused(format!(
            "{provider} has no option `{name}`: remove it from the `ModelOptions`, or put the provider's own option into \
             `extra`"
        ))),
    }
}

pub(super) fn forces_a_call(options: &ModelOptions) -> bool {
    matches!(options.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)))
}

/// Returns the schema of an answer for OpenAI. The schema is strict if OpenAI's subset of JSON Schema can express it.
pub(super) fn named_schema(output: &OutputSpec) -> Value {
    match schema::OPENAI.fit(&output.schema) {
        Some(strict) => json!({ "name": output.name, "schema": strict, "strict": true }),
        None => json!({ "name": output.name, "schema": output.schema, "strict": false }),
    }
}

/// Returns an instruction for a model that the provider does not hold to the schema of its answer.
pub(super) fn schema_instruction(output: &OutputSpec) -> String {
    format!("Answer with JSON of this schema, and with nothing else: {}", output.schema)
}

/// Returns true for OpenAI's newer models, which count thoughts as output and refuse some older fields.
pub(super) fn is_newer(model: &str) -> bool {
    ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|prefix| model.starts_with(prefix))
}

/// Returns true for OpenAI's reasoning models, which refuse temperature and top-p.
pub(super) fn is_reasoner(model: &str) -> bool {
    is_newer(model) && !model.starts_with("gpt-5-chat")
}

/// Returns the choice of a tool in OpenAI's format. `named` writes the choice of a single tool.
pub(super) fn tool_choice(choice: &ToolChoice, named: fn(&str) -> Value) -> Value {
    match choice {
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => named(name),
        _ => json!("auto"),
    }
}

/// Returns the entry of the first prefix that the model's name starts with.
pub(super) fn by_name<T: Copy>(table: &[(&str, T)], model: &str) -> Option<T> {
    table.iter().find(|(prefix, _)| model.starts_with(prefix)).map(|(_, known)| *known)
}

/// The context sizes of OpenAI's models, in tokens.
const CONTEXTS_OF_OPENAI: [(&str, u64); 17] = [
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-5-chat", 128_000),
    // The limits of the input. The whole context is larger by the maximum answer of 128,000 tokens.
    ("gpt-5.4-mini", 272_000),
    ("gpt-5.4-nano", 272_000),
    ("gpt-5.4", 922_000),
    ("gpt-5.5", 922_000),
    ("gpt-5.6", 922_000),
    ("gpt-6", 922_000),
    ("gpt-5", 272_000),
    ("gpt-3.5-turbo", 16_385),
    ("o1-mini", 128_000),
    ("o1-preview", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
];

pub(super) fn context_of_openai(model: &str) -> Option<u64> {
    by_name(&CONTEXTS_OF_OPENAI, model)
}

/// Returns true for OpenAI's models that can be held to a schema: all models except the oldest.
pub(super) fn obeys_schemas(model: &str) -> bool {
    let is_one = |prefix: &&str| model.starts_with(*prefix);
    ["gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(is_one)
        && !["gpt-4o-2024-05-13", "o1-mini", "o1-preview"].iter().any(is_one)
}
