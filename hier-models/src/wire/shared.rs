//! What several dialects have in common.

use hier_agents::{ChatRequest, FinishReason, ModelOptions, OutputSpec, ToolSpec};
use serde_json::{Value, json};

use super::schema;
use crate::error::Failure;

/// The providers' names of finish reasons, in lower case.
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
            "image_safety",
            "image_prohibited_content",
            "image_recitation",
        ],
        FinishReason::ContentFilter,
    ),
];

/// The providers' names for an answer that they aborted themselves.
const BROKEN_OFF: [&str; 4] = ["error", "network_error", "insufficient_system_resource", "abort"];

/// The reason that a provider gives for the end of an answer. Null as text is not a reason.
pub(super) fn finish(value: Option<&Value>) -> Option<FinishReason> {
    let text = value?.as_str().filter(|text| !text.is_empty() && *text != "null")?;
    let name = text.to_ascii_lowercase();
    let known = REASONS.iter().find(|(names, _)| names.contains(&&*name)).map(|(_, reason)| reason.clone());
    Some(known.unwrap_or_else(|| FinishReason::Other(text.to_owned())))
}

/// Refuses an answer that the provider broke off.
pub(super) fn not_broken_off(finish: Option<&FinishReason>) -> Result<(), Failure> {
    match finish {
        Some(FinishReason::Other(reason)) if BROKEN_OFF.contains(&&**reason) => {
            Err(Failure::unavailable(format!("the provider broke the answer off (`{reason}`)")))
        }
        _ => Ok(()),
    }
}

/// Refuses what says that something went wrong.
pub(crate) fn no_error(answer: &Value) -> Result<(), Failure> {
    match answer.get("error") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(Failure::said(answer)),
    }
}

/// The text of a field; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a field; none if there is no such list.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A field; null if there is none.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// Sets a field, unless its value is none.
pub(super) fn set<T: Into<Value>>(object: &mut Value, field: &str, value: Option<T>) {
    if let Some(value) = value {
        object[field] = value.into();
    }
}

/// Sets a field to this list, unless that is empty.
pub(super) fn set_list(object: &mut Value, field: &str, list: &[String]) {
    set(object, field, (!list.is_empty()).then(|| json!(list)));
}

/// The fields of an object that have a value.
pub(super) fn only(value: &Value, fields: &[&str]) -> Value {
    let kept = fields.iter().filter_map(|name| Some((*name, value.get(name)?))).filter(|(_, value)| !value.is_null());
    kept.map(|(name, value)| (name.to_owned(), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

/// The header that most servers want the key in.
pub(super) fn bearer(key: Option<&str>) -> Vec<(&'static str, String)> {
    key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
}

/// A tool, with its schema in this field, and its description if it has one.
pub(super) fn tool(spec: &ToolSpec, schema: &str) -> Value {
    let mut tool = json!({ "name": spec.name, schema: spec.parameters });
    set(&mut tool, "description", Some(&*spec.description).filter(|text| !text.is_empty()));
    tool
}

/// The tools of a request as most servers take them.
pub(super) fn functions(request: &ChatRequest) -> Option<Value> {
    let function = |spec| json!({ "type": "function", "function": tool(spec, "parameters") });
    (!request.tools.is_empty()).then(|| request.tools.iter().map(function).collect())
}

/// Refuses options that are set and that the provider lacks.
pub(super) fn lacks(provider: &str, options: &[(&str, bool)]) -> Result<(), Failure> {
    match options.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::refused(format!(
            "{provider} has no option `{name}`: leave it out of the `ModelOptions`, or say it in the provider's own words \
             in `extra`"
        ))),
    }
}

/// Whether the model must call a tool.
pub(super) fn forces_a_call(options: &ModelOptions) -> bool {
    use hier_agents::ToolChoice;
    matches!(options.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_)))
}

/// The shape of an answer as OpenAI takes it: strict if its subset of schemas has this one.
pub(super) fn named_schema(output: &OutputSpec) -> Value {
    match schema::OPENAI.fit(&output.schema) {
        Some(strict) => json!({ "name": output.name, "schema": strict, "strict": true }),
        None => json!({ "name": output.name, "schema": output.schema, "strict": false }),
    }
}

/// Words for a model that the provider does not hold to the schema of its answer.
pub(super) fn wanted(output: &OutputSpec) -> String {
    format!("Answer with JSON of this schema, and with nothing else: {}", output.schema)
}

/// Whether a model of OpenAI is one of those that count what they think, too, and refuse some older fields.
pub(super) fn is_newer(model: &str) -> bool {
    ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|prefix| model.starts_with(prefix))
}

/// Whether a model of OpenAI reasons. Those that do refuse temperature and top-p.
pub(super) fn is_reasoner(model: &str) -> bool {
    is_newer(model) && !model.starts_with("gpt-5-chat")
}

/// What is known of models by what their names begin with: of the first that fits.
pub(super) fn by_name<T: Copy>(table: &[(&str, T)], model: &str) -> Option<T> {
    table.iter().find(|(prefix, _)| model.starts_with(prefix)).map(|(_, known)| *known)
}

/// The contexts of OpenAI's models, in tokens.
const CONTEXTS_OF_OPENAI: [(&str, u64); 9] = [
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-5-chat", 128_000),
    // Of 400,000 they read so many.
    ("gpt-5", 272_000),
    ("gpt-3.5-turbo", 16_385),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
];

/// How many tokens a model of OpenAI reads and writes at once.
pub(super) fn context_of_openai(model: &str) -> Option<u64> {
    by_name(&CONTEXTS_OF_OPENAI, model)
}

/// Whether a model of OpenAI can be held to a schema: all but the oldest.
pub(super) fn keeps_to_schemas(model: &str) -> bool {
    let is_one = |prefix: &&str| model.starts_with(*prefix);
    ["gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(is_one)
        && !["gpt-4o-2024-05-13", "o1-mini", "o1-preview"].iter().any(is_one)
}
