//! Converts questions of graphs to elicitation requests, and the client's responses to answers.

use std::collections::BTreeMap;

use hier_core::Question;
use rmcp::model::{ClientCapabilities, InputRequest, InputRequests};
use serde_json::{Map, Value, json};

/// The field of an answer that is not an object.
const ANSWER: &str = "answer";

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
            AnswerForm::Fields(Value::Object(fields.collect()))
        }
        Some(schema) if is_plain(schema) => AnswerForm::One(Some(schema.clone())),
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

/// Returns the elicitation requests, or the required capabilities if the client lacks them.
pub(crate) fn requests(
    questions: &[Question],
    client: Option<&ClientCapabilities>,
) -> Result<InputRequests, Box<ClientCapabilities>> {
    if client.is_none_or(|client| client.elicitation.is_none()) {
        return Err(Box::new(ClientCapabilities::builder().enable_elicitation().build()));
    }
    let request = |question: &Question| -> Option<InputRequest> { serde_json::from_value(request(question)).ok() };
    let asked = keys(questions).into_iter();
    Ok(asked.filter_map(|(key, question)| Some((key, request(question)?))).collect())
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
