//! What nodes ask, in the forms in which clients are told.

use serde_json::{Value, json};

/// A question in a stream, or as the end of a run: with the schema of its answer.
pub(crate) fn asked(question: &Value) -> Value {
    json!({
        "value": question.get("value"), "id": question.get("id"), "response_schema": question.get("response_schema"),
    })
}

/// A question in a state or a thread. Clients of Python accept no other fields.
pub(crate) fn listed(question: &Value) -> Value {
    json!({ "id": question.get("id"), "value": question.get("value") })
}

/// Changes each question of a list.
pub(crate) fn each(questions: Option<&Value>, form: fn(&Value) -> Value) -> Value {
    questions.and_then(Value::as_array).into_iter().flatten().map(form).collect()
}
