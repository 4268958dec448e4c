//! What nodes ask, in the forms in which clients are told.

use hier_core::runs::{LoggedQuestion, TaskEvent, TaskPhase};
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

/// Questions of a log as [`asked`] shows them. The log has no schemas.
pub(crate) fn logged(questions: &[LoggedQuestion]) -> Value {
    let asked = |asked: &LoggedQuestion| json!({ "value": asked.value, "id": asked.id, "response_schema": null });
    questions.iter().map(asked).collect()
}

/// A task of a log, with its questions as [`asked`] shows them.
pub(crate) fn task(task: &TaskEvent) -> Value {
    let mut data = task.to_json();
    if let TaskPhase::Finished { interrupts, .. } = &task.phase {
        data["interrupts"] = logged(interrupts);
    }
    data
}

/// Changes each question of a list.
pub(crate) fn each(questions: Option<&Value>, form: fn(&Value) -> Value) -> Value {
    questions.and_then(Value::as_array).into_iter().flatten().map(form).collect()
}
