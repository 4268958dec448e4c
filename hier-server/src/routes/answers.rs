//! Checks answers before a run is added. Otherwise, a run with a wrong answer would fail, and the thread would have the
//! status `error`.

use hier_core::Config;
use hier_core::client_call::{self, OpenCall};
use hier_core::graph::DynGraph;
use hier_core::runs::{NewRun, RunQuery, ThreadRow, ThreadStatus};
use serde_json::{Map, Value, json};

use crate::app::Caller;
use crate::error::{ApiError, ApiResult};
use crate::fault::{self, refused};
use crate::reserved::ENGINE;
use crate::wire::run::RunCreate;

/// Continues the thread if the client is a `RemoteGraph` that is a node of a resumed graph. Such a client sends the
/// node's input again, and only the configuration shows that the node resumes. Omits answers to questions of other
/// threads.
async fn resume(caller: &Caller, body: &RunCreate, new: &mut NewRun) -> ApiResult<()> {
    let given = body.config.as_ref().and_then(|config| config.configurable.as_ref());
    let of_engine = |name: &str| given.and_then(|given| given.get(&format!("{ENGINE}{name}")));
    if of_engine("resuming") != Some(&Value::Bool(true)) || new.request.command.is_some() {
        return Ok(());
    }
    let Some(row) = caller.app.runs.thread(&new.thread).await.map_err(refused)? else { return Ok(()) };
    let is_left = match row.settled {
        ThreadStatus::Interrupted => true,
        ThreadStatus::Error => row.values.is_some(),
        _ => false,
    };
    if is_left {
        let (answers, open) = (of_engine("resume_map").and_then(Value::as_object), open_questions(&row));
        let own = answers.into_iter().flatten().filter(|(id, _)| open.iter().any(|open| open.id == **id));
        let own: Map<String, Value> = own.map(|(id, answer)| (id.clone(), answer.clone())).collect();
        new.request.input = Value::Null;
        new.request.command = (!own.is_empty()).then(|| json!({ "resume": own }));
    }
    Ok(())
}

struct OpenQuestion {
    id: String,
    /// The name of the question, if it is declared.
    name: Option<String>,
    /// The id of the call if the question waits for a client tool.
    call: Option<String>,
}

fn open_questions(row: &ThreadRow) -> Vec<OpenQuestion> {
    let asked = row.interrupts.values().filter_map(Value::as_array).flatten();
    let text = |asked: &Value, field: &str| asked.get(field).and_then(Value::as_str).map(str::to_owned);
    let call = |asked: &Value| client_call::id(asked.get("value")?).map(str::to_owned);
    let open =
        |asked: &Value| Some(OpenQuestion { id: text(asked, "id")?, name: text(asked, "name"), call: call(asked) });
    asked.filter_map(open).collect()
}

/// The kinds of answers in a new run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// All answers are results of client tools.
    OnlyResults,
    /// Some answers are not results of client tools, or the run has no answers.
    Other,
}

/// Refuses answers to questions that are not open, and answers of the wrong type to declared questions. Accepts answers
/// to unknown questions if the thread is running, because the thread may ask them before the new run starts. Stores in
/// the run which questions it answers, and which answers are results of client tools.
pub(super) async fn check(caller: &Caller, body: &RunCreate, new: &mut NewRun) -> ApiResult<Answers> {
    resume(caller, body, new).await?;
    let resume = new.request.command.as_ref().and_then(|command| command.get("resume"));
    let Some(resume) = resume.filter(|resume| !resume.is_null()).cloned() else { return Ok(Answers::Other) };
    let graph = &caller.app.graph(&new.graph)?.graph;
    let Some(row) = caller.app.runs.thread(&new.thread).await.map_err(refused)? else { return Ok(Answers::Other) };
    let is_busy = row.status == ThreadStatus::Busy;
    let open = match new.request.checkpoint {
        // The engine decides where an inner graph resumes.
        Some(_) if is_busy || !new.request.checkpoint_ns.is_empty() => None,
        Some(_) => stored_questions(caller, new).await?,
        None => Some(open_questions(&row)),
    };
    let Some(mut open) = open else { return Ok(Answers::Other) };
    let questions = &graph.schemas().questions;
    let schema = |asked: &OpenQuestion| Some(&questions.get(asked.name.as_ref()?)?.answer);
    let calls = open.iter().map(|asked| {
        let call = asked.call.as_deref();
        OpenCall { id: &asked.id, call, schema: schema(asked) }
    });
    let calls: Vec<_> = calls.collect();
    let answers = match client_call::answers(&resume, &calls) {
        Ok(answers) => answers.unwrap_or(resume),
        // The running run may ask this question before the new run starts.
        Err(_) if is_busy => resume,
        Err(reason) => return Err(ApiError::invalid(format!("`command.resume`: {reason}"))),
    };
    let is_plain = client_call::by_id(&answers).is_none();
    if is_busy && is_plain && new.request.checkpoint.is_none() {
        // The row has only the questions of runs that have ended. A graph that cannot read the thread fails in its run.
        open = stored_questions(caller, new).await.ok().flatten().unwrap_or_default();
        if open.len() != 1 {
            refuse_second(caller, new).await?;
        }
    }
    let answers = match &*open {
        [asked] if is_plain => json!({ &*asked.id: answers }),
        _ => answers,
    };
    check_answers(&**graph, &answers, &open, is_busy)?;
    Ok(note_answers(new, answers, is_plain, &open))
}

/// Refuses an answer without an id while another run answers a question. The answer is either another answer to that
/// question, or an answer to a question that the client has not seen.
async fn refuse_second(caller: &Caller, new: &NewRun) -> ApiResult<()> {
    if !new.multitask_strategy.spares_others() {
        return Ok(());
    }
    let mut live = RunQuery::thread(&*new.thread).live();
    live.limit = usize::MAX;
    let runs = caller.app.runs.runs(live).await.map_err(refused)?;
    match runs.iter().find(|run| run.cancel.is_none() && !run.request.answers.is_empty()) {
        None => Ok(()),
        Some(run) => Err(ApiError::conflict(format!(
            "`command.resume`: run `{}` of the thread already answers: wait for its end, or name the question that you answer \
             (`{{\"<id of the question>\": answer}}`)",
            run.id
        ))),
    }
}

/// Stores the answers in the new run, with the ids of the questions. Distinguishes the questions whose answers are
/// results of client tools. An answer that the client has sent without an id stays in this form.
fn note_answers(new: &mut NewRun, answers: Value, is_plain: bool, open: &[OpenQuestion]) -> Answers {
    let is_call = |id: &String| open.iter().any(|asked| asked.id == *id && asked.call.is_some());
    let given = client_call::by_id(&answers).into_iter().flatten().map(|(id, _)| id.clone());
    let (results, others): (Vec<String>, Vec<String>) = given.partition(is_call);
    let kind = if results.is_empty() || !others.is_empty() { Answers::Other } else { Answers::OnlyResults };
    new.request.answers = others;
    let stays = is_plain && results.is_empty();
    if let Some(Value::Object(command)) = new.request.command.as_mut().filter(|_| !stays) {
        command.insert("resume".to_owned(), answers);
        if !results.is_empty() {
            command.insert("results".to_owned(), json!(results));
        }
    }
    kind
}

/// Refuses answers of the wrong type. If the thread is not busy, also refuses answers to questions that are not open.
fn check_answers(graph: &dyn DynGraph, answers: &Value, open: &[OpenQuestion], is_busy: bool) -> ApiResult<()> {
    // If several questions are open, the engine refuses an answer without an id.
    let Some(by_id) = client_call::by_id(answers) else { return Ok(()) };
    let mut answered = open.iter().filter_map(|asked| Some((asked, by_id.get(&asked.id)?)));
    answered.try_for_each(|(asked, answer)| check_type(graph, asked, answer))?;
    if is_busy {
        return Ok(());
    }
    match by_id.keys().find(|id| open.iter().all(|asked| asked.id != **id)) {
        None => Ok(()),
        Some(unknown) if open.is_empty() => Err(ApiError::invalid(format!(
            "`command.resume`: `{unknown}` is not an open question: the thread has no open questions"
        ))),
        Some(unknown) => Err(ApiError::invalid(format!(
            "`command.resume`: `{unknown}` is not an open question: the open ones are {}",
            open.iter().map(|asked| &*asked.id).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Refuses an answer of the wrong type to a declared question.
fn check_type(graph: &dyn DynGraph, asked: &OpenQuestion, answer: &Value) -> ApiResult<()> {
    let Some(name) = &asked.name else { return Ok(()) };
    graph.check_answer(name, answer).map_err(|error| {
        let reason = format!("{answer} is not an answer to the question `{name}` ({}): {error}", asked.id);
        ApiError::invalid(format!("`command.resume`: {reason}"))
    })
}

/// Returns the questions that are open at the checkpoint from which a run starts. Returns `None` if there is no
/// checkpoint, which the run will report.
async fn stored_questions(caller: &Caller, new: &NewRun) -> ApiResult<Option<Vec<OpenQuestion>>> {
    let (graph, saver) = (&caller.app.graph(&new.graph)?.graph, caller.app.runs.clone().as_checkpointer());
    let mut config = Config::new().thread(&new.thread);
    if let Some(checkpoint) = new.request.checkpoint {
        config = config.checkpoint(checkpoint);
    }
    let snapshot = graph.state(saver, config).await.map_err(|error| fault::graph(&error))?;
    let open = snapshot.questions.into_iter().filter(|question| !question.answered && question.kind.is_person());
    let open = open.map(|question| {
        let call = client_call::id(&question.value).map(str::to_owned);
        OpenQuestion { id: question.id, name: question.name, call }
    });
    Ok(snapshot.checkpoint.map(|_| open.collect()))
}
