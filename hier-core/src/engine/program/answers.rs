use std::collections::HashSet;

use serde_json::Value;

use crate::question::Question;
use crate::question::client_call::{self, OpenCall};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommandAnswers {
    /// An answer to the only open question. If no task has asked yet, it answers the first question.
    One(Value),
    ById(Vec<(String, Value)>),
    /// Answers whose form depends on the questions that are open when the run starts.
    Json(JsonAnswers),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonAnswers {
    /// One answer, or an object of answers by the ids of their questions or of the calls of client tools.
    pub(crate) resume: Value,
    /// The ids of the answers that are results of client tools.
    pub(crate) results: Vec<String>,
}

impl JsonAnswers {
    /// Matches the answers to the open questions. Returns `None` if all answers are late results of client tools, for
    /// example because two tabs of a browser have run the same tool. Fails for a result of another call.
    pub(crate) fn matched(&self, open: &[&Question]) -> Result<Option<CommandAnswers>, String> {
        let calls: Vec<_> = open.iter().map(|asked| OpenCall::of(asked)).collect();
        let mut resume = client_call::answers(&self.resume, &calls)?.unwrap_or_else(|| self.resume.clone());
        if let Value::Object(answers) = &mut resume
            && !self.results.is_empty()
        {
            let waiting: HashSet<&str> = calls.iter().map(|asked| asked.id).collect();
            answers.retain(|id, _| waiting.contains(&**id) || !self.results.contains(id));
            if answers.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(by_form(resume)))
    }
}

/// Returns answers by id if all keys of an object are ids of questions. Otherwise returns the value as one answer.
fn by_form(resume: Value) -> CommandAnswers {
    match client_call::by_id(&resume) {
        Some(answers) => CommandAnswers::ById(answers.clone().into_iter().collect()),
        None => CommandAnswers::One(resume),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/answers.rs"]
mod tests;
