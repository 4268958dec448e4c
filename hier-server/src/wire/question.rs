use hier_core::runs::{LoggedQuestion, TaskEvent, TaskPhase};
use serde_json::{Value, json};

/// Formats a question for a stream or for the output of a run, with the schema of its answer.
pub(crate) fn asked(question: &Value) -> Value {
    json!({
        "value": question.get("value"), "id": question.get("id"), "response_schema": question.get("response_schema"),
    })
}

/// Formats a question for a state or a thread. The Python client does not accept further fields.
pub(crate) fn listed(question: &Value) -> Value {
    json!({ "id": question.get("id"), "value": question.get("value") })
}

/// Formats questions of the log like [`asked`], but without schemas, which the log does not contain.
pub(crate) fn logged(questions: &[LoggedQuestion]) -> Value {
    let asked = |asked: &LoggedQuestion| json!({ "value": asked.value, "id": asked.id, "response_schema": null });
    questions.iter().map(asked).collect()
}

/// Formats a task of the log. Its questions have the form of [`logged`].
pub(crate) fn task(task: &TaskEvent) -> Value {
    let mut data = task.to_json();
    if let TaskPhase::Finished { interrupts, .. } = &task.phase {
        data["interrupts"] = logged(interrupts);
    }
    data
}

pub(crate) fn each(questions: Option<&Value>, form: fn(&Value) -> Value) -> Value {
    questions.and_then(Value::as_array).into_iter().flatten().map(form).collect()
}
