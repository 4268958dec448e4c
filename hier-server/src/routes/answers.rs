//! Answers to questions, checked before a run is added: a run that fails would leave the thread in error.

use hier_core::runs::{NewRun, ThreadStatus};
use serde_json::Value;

use crate::app::Caller;
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;

/// Refuses answers by ids of which none is that of an open question. A thread that is running may ask before its next run begins.
pub(super) async fn check(caller: &Caller, new: &NewRun) -> ApiResult<()> {
    let resume = new.request.command.as_ref().and_then(|command| command.get("resume")).and_then(Value::as_object);
    let is_id = |key: &String| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some(resume) = resume.filter(|resume| !resume.is_empty() && resume.keys().all(is_id)) else { return Ok(()) };
    let Some(row) = caller.app.runs.thread(&new.thread).await.map_err(refused)? else { return Ok(()) };
    if row.status == ThreadStatus::Busy {
        return Ok(());
    }
    let asked = row.interrupts.values().filter_map(Value::as_array).flatten();
    let open: Vec<&str> = asked.filter_map(|asked| asked.get("id")?.as_str()).collect();
    match resume.keys().find(|id| !open.contains(&id.as_str())) {
        None => Ok(()),
        Some(unknown) if open.is_empty() => Err(ApiError::invalid(format!(
            "`command.resume`: `{unknown}` is not an open question: the thread asks nothing"
        ))),
        Some(unknown) => Err(ApiError::invalid(format!(
            "`command.resume`: `{unknown}` is not an open question; the thread asks {}",
            open.join(", ")
        ))),
    }
}
