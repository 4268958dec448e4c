//! What a graph asks, as a client is asked it, and what the client answers, as the graph takes it.

use std::collections::BTreeMap;

use hier_core::Question;
use rmcp::model::{ClientCapabilities, InputRequest, InputRequests};
use serde_json::{Map, Value, json};

/// The field of an answer that is no object itself.
const ANSWER: &str = "answer";

/// How an answer is asked for.
enum Form {
    /// The approval of a call.
    Approval,
    /// Its fields are those of the form.
    Fields(Value),
    /// It is one value of the form: of this schema, or, if that is not known, a text, perhaps of JSON.
    One(Option<Value>),
}

fn form(question: &Question) -> Form {
    if question.value["type"] == "tool_approval" {
        return Form::Approval;
    }
    match &question.schema {
        Some(schema) if is_flat(schema) => {
            let known = ["type", "properties", "required"];
            let fields = known.iter().filter_map(|name| Some(((*name).to_owned(), schema.get(*name)?.clone())));
            Form::Fields(Value::Object(fields.collect()))
        }
        Some(schema) if is_plain(schema) => Form::One(Some(schema.clone())),
        _ => Form::One(None),
    }
}

/// Whether a client can be asked for such an object: its fields are no objects themselves.
fn is_flat(schema: &Value) -> bool {
    let fields = schema["properties"].as_object();
    schema["type"] == "object" && fields.is_some_and(|fields| fields.values().all(is_plain))
}

fn is_plain(schema: &Value) -> bool {
    matches!(schema["type"].as_str(), Some("string" | "number" | "integer" | "boolean"))
}

/// What is said to the person.
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

/// The name under which a client is asked: the question's own `key`, if it has one that no other has, else its id.
pub(crate) fn keys(questions: &[Question]) -> BTreeMap<String, &Question> {
    let own = |question: &Question| question.value["key"].as_str().map(str::to_owned);
    let keyed = questions.iter().map(|question| {
        let key =
            own(question).filter(|key| questions.iter().filter(|other| own(other).as_ref() == Some(key)).count() == 1);
        (key.unwrap_or_else(|| question.id.clone()), question)
    });
    keyed.collect()
}

/// The requests, for a client that can ask a person; or an error for one that cannot.
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

/// A request for a person's answer, as JSON.
pub(crate) fn request(question: &Question) -> Value {
    let schema = match form(question) {
        Form::Approval => json!({
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": ["approve", "reject"]},
                "reason": {"type": "string", "description": "Why the call is rejected."},
            },
            "required": ["decision"],
        }),
        Form::Fields(schema) => schema,
        Form::One(schema) => {
            let schema = schema.unwrap_or_else(|| json!({"type": "string"}));
            json!({"type": "object", "properties": {ANSWER: schema}, "required": [ANSWER]})
        }
    };
    let params = json!({"mode": "form", "message": message(question), "requestedSchema": schema});
    json!({"method": "elicitation/create", "params": params})
}

/// The answer as the graph takes it, of what the client brought; what is wrong with it otherwise.
pub(crate) fn answer(question: &Question, response: &Value) -> Result<Value, String> {
    let form = form(question);
    let accepted = match response["action"].as_str() {
        Some("accept") => true,
        Some("decline" | "cancel") => false,
        _ => return Err("`action` is none of `accept`, `decline` and `cancel`".to_owned()),
    };
    let empty = Value::Object(Map::new());
    let content = response.get("content").filter(|content| content.is_object()).unwrap_or(&empty);
    match form {
        Form::Approval if !accepted || content["decision"] == "reject" => {
            let reason = content["reason"].as_str().unwrap_or("declined");
            Ok(json!({"decision": "reject", "reason": reason}))
        }
        Form::Approval if content["decision"] == "approve" => Ok(json!({"decision": "approve"})),
        Form::Approval => Err("`decision` is neither `approve` nor `reject`".to_owned()),
        _ if !accepted => Ok(Value::Null),
        Form::Fields(_) => Ok(content.clone()),
        Form::One(schema) => {
            let given = content.get(ANSWER).ok_or_else(|| format!("`{ANSWER}` is missing"))?;
            // Of what type it must be is not known here: what is JSON is taken as that.
            match given.as_str() {
                Some(text) if schema.is_none() => Ok(serde_json::from_str(text).unwrap_or_else(|_| given.clone())),
                _ => Ok(given.clone()),
            }
        }
    }
}
