//! Converts questions of graphs to elicitation requests, and the client's responses to answers.

use std::collections::BTreeMap;

use hier_core::Question;
use rmcp::model::{ClientCapabilities, ErrorData, InputRequest, InputRequests};
use serde_json::{Map, Value, json};

/// The field of an answer that is not an object.
const ANSWER: &str = "answer";

/// The formats of texts in elicitation.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// The form in which a client asks a question.
enum AnswerForm {
    Approval,
    /// An object with these fields.
    Fields(Value),
    /// A single value of this schema. Without a schema it is a text, which may contain JSON.
    One(Option<Value>),
}

fn form(question: &Question) -> AnswerForm {
    if question.value["type"] == "tool_approval" {
        return AnswerForm::Approval;
    }
    match &question.schema {
        Some(schema) if is_flat(schema) => {
            let known = ["type", "properties", "required"];
            let fields = known.iter().filter_map(|name| Some(((*name).to_owned(), schema.get(*name)?.clone())));
            let mut fields: Map<String, Value> = fields.collect();
            fields["properties"].as_object_mut().into_iter().flat_map(Map::values_mut).for_each(remove_format);
            AnswerForm::Fields(Value::Object(fields))
        }
        Some(schema) if is_plain(schema) => {
            let mut schema = schema.clone();
            remove_format(&mut schema);
            AnswerForm::One(Some(schema))
        }
        _ => AnswerForm::One(None),
    }
}

/// Returns true if elicitation supports the schema: an object without nested objects.
fn is_flat(schema: &Value) -> bool {
    let fields = schema["properties"].as_object();
    schema["type"] == "object" && fields.is_some_and(|fields| fields.values().all(is_plain))
}

fn is_plain(schema: &Value) -> bool {
    matches!(schema["type"].as_str(), Some("string" | "number" | "integer" | "boolean"))
}

/// Removes a format that elicitation lacks.
fn remove_format(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut()
        && fields.get("format").is_some_and(|format| !FORMATS.iter().any(|known| format == known))
    {
        fields.remove("format");
    }
}

fn message(question: &Question) -> String {
    let value = &question.value;
    if value["type"] == "tool_approval" {
        let call = &value["call"];
        let agent = value["agent"].as_str().unwrap_or_default();
        return format!(
            "`{agent}` wants to call `{}` with {}",
            call["name"].as_str().unwrap_or_default(),
            call["args"]
        );
    }
    let texts = [value, &value["message"], &value["question"]];
    texts.iter().find_map(|text| text.as_str()).map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the questions by key: the question's own `key` if it is unique, otherwise its id.
pub(crate) fn keys(questions: &[Question]) -> BTreeMap<String, &Question> {
    let own = |question: &Question| question.value["key"].as_str().map(str::to_owned);
    let keyed = questions.iter().map(|question| {
        let key =
            own(question).filter(|key| questions.iter().filter(|other| own(other).as_ref() == Some(key)).count() == 1);
        (key.unwrap_or_else(|| question.id.clone()), question)
    });
    keyed.collect()
}

/// Returns the elicitation requests. Fails if the client lacks the required capabilities.
pub(crate) fn requests(
    questions: &[Question],
    client: Option<&ClientCapabilities>,
) -> Result<InputRequests, ErrorData> {
    if client.is_none_or(|client| client.elicitation.is_none()) {
        let needed = ClientCapabilities::builder().enable_elicitation().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    }
    let invalid = |error: serde_json::Error| ErrorData::internal_error(error.to_string(), None);
    let asked = keys(questions).into_iter();
    let requests = asked.map(|(key, question)| -> Result<_, ErrorData> {
        let request: InputRequest = serde_json::from_value(request(question)).map_err(invalid)?;
        Ok((key, request))
    });
    requests.collect()
}

/// Returns an elicitation request as JSON.
pub(crate) fn request(question: &Question) -> Value {
    let schema = match form(question) {
        AnswerForm::Approval => json!({
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": ["approve", "reject"]},
                "reason": {"type": "string", "description": "Why the call is rejected."},
            },
            "required": ["decision"],
        }),
        AnswerForm::Fields(schema) => schema,
        AnswerForm::One(schema) => {
            let schema = schema.unwrap_or_else(|| json!({"type": "string"}));
            json!({"type": "object", "properties": {ANSWER: schema}, "required": [ANSWER]})
        }
    };
    let params = json!({"mode": "form", "message": message(question), "requestedSchema": schema});
    json!({"method": "elicitation/create", "params": params})
}

/// Converts the client's response to the graph's answer. Returns the problem if it is invalid.
pub(crate) fn answer(question: &Question, response: &Value) -> Result<Value, String> {
    let form = form(question);
    let accepted = match response["action"].as_str() {
        Some("accept") => true,
        Some("decline" | "cancel") => false,
        _ => return Err("`action` must be `accept`, `decline` or `cancel`".to_owned()),
    };
    let empty = Value::Object(Map::new());
    let content = response.get("content").filter(|content| content.is_object()).unwrap_or(&empty);
    match form {
        AnswerForm::Approval if !accepted || content["decision"] == "reject" => {
            let reason = content["reason"].as_str().unwrap_or("declined");
            Ok(json!({"decision": "reject", "reason": reason}))
        }
        AnswerForm::Approval if content["decision"] == "approve" => Ok(json!({"decision": "approve"})),
        AnswerForm::Approval => Err("`decision` must be `approve` or `reject`".to_owned()),
        _ if !accepted => Ok(Value::Null),
        AnswerForm::Fields(_) => Ok(content.clone()),
        AnswerForm::One(schema) => {
            let given = content.get(ANSWER).ok_or_else(|| format!("`{ANSWER}` is missing"))?;
            // A question without a schema has an unknown type, so the text is parsed as JSON.
            match given.as_str() {
                Some(text) if schema.is_none() => Ok(serde_json::from_str(text).unwrap_or_else(|_| given.clone())),
                _ => Ok(given.clone()),
            }
        }
    }
}
