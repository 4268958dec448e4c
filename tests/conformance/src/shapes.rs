//! The JSON forms of actions, branches and calls: objects whose kind follows from the fields that are present.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use hier_core::Durability;

use super::scenario::{Action, Answer, Ask, Branch, Call, Fail, Given, Object, Parent, Send, Target};

/// The default recursion limit of a call.
const RECURSION_LIMIT: usize = 25;

/// Deserializes a field so that an explicit null differs from a missing field.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// Returns the only field that is present. Fails if none or several are.
fn exactly_one<T>(what: &str, names: &str, fields: impl IntoIterator<Item = Option<T>>) -> Result<T, String> {
    let mut there = fields.into_iter().flatten();
    match (there.next(), there.next()) {
        (Some(field), None) => Ok(field),
        (None, _) => Err(format!("{what} needs one of {names}")),
        (Some(_), Some(_)) => Err(format!("{what} takes only one of {names}: make it several")),
    }
}

/// The JSON form of an action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawAction {
    write: Option<Object>,
    overwrite: Option<Object>,
    observe: Option<String>,
    #[serde(default, deserialize_with = "present")]
    interrupt: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    emit: Option<Value>,
    goto: Option<Vec<String>>,
    send: Option<Vec<Send>>,
    fail: Option<Fail>,
    parent: Option<Parent>,
    into: Option<String>,
}

impl TryFrom<RawAction> for Action {
    type Error = String;

    fn try_from(raw: RawAction) -> Result<Self, String> {
        let into = raw.into;
        let into = |what| into.clone().ok_or_else(|| format!("`{what}` needs `into`: the channel to write to"));
        let names = "`write`, `overwrite`, `observe`, `interrupt`, `emit`, `goto`, `send`, `fail` and `parent`";
        exactly_one(
            "an action",
            names,
            [
                raw.write.map(|write| Ok(Self::Write(write))),
                raw.overwrite.map(|write| Ok(Self::Overwrite(write))),
                raw.observe.map(|what| Ok(Self::Observe { what, into: into("observe")? })),
                raw.interrupt.map(|question| Ok(Self::Interrupt { question, into: into("interrupt")? })),
                raw.emit.map(|value| Ok(Self::Emit(value))),
                raw.goto.map(|targets| Ok(Self::Goto(targets))),
                raw.send.map(|sends| Ok(Self::Send(sends))),
                raw.fail.map(|fail| Ok(Self::Fail(fail))),
                raw.parent.map(|parent| Ok(Self::Parent(parent))),
            ],
        )?
    }
}

/// The JSON form of a branch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBranch {
    from: String,
    on: Option<String>,
    lt: Option<f64>,
    then: Option<Vec<String>>,
    #[serde(rename = "else")]
    otherwise: Option<Vec<String>>,
    each: Option<String>,
    to: Option<String>,
    #[serde(rename = "as")]
    item: Option<String>,
}

impl TryFrom<RawBranch> for Branch {
    type Error = String;

    fn try_from(raw: RawBranch) -> Result<Self, String> {
        match raw {
            RawBranch {
                from,
                on: Some(on),
                lt: Some(bound),
                then: Some(then),
                otherwise: Some(otherwise),
                each: None,
                to: None,
                item: None,
            } => Ok(Self::Below { from, on, bound, then, otherwise }),
            RawBranch {
                from,
                each: Some(each),
                to: Some(to),
                item: Some(item),
                on: None,
                lt: None,
                then: None,
                otherwise: None,
            } => Ok(Self::Each { from, each, to, item }),
            _ => {
                Err("a branch has `from` and either `on`, `lt`, `then` and `else`, or `each`, `to` and `as`".to_owned())
            }
        }
    }
}

/// The JSON form of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCall {
    #[serde(default, deserialize_with = "present")]
    invoke: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    resume: Option<Value>,
    update_state: Option<Object>,
    state: Option<bool>,
    history: Option<bool>,
    as_node: Option<String>,
    thread: Option<String>,
    from: Option<usize>,
    recursion_limit: Option<usize>,
    answers: Option<Vec<(Value, Value)>>,
    update: Option<Object>,
    goto: Option<Vec<Target>>,
    durability: Option<String>,
}

/// Takes the input of a resumed run out of a call. Returns `None` if the call has no such field.
fn given(raw: &mut RawCall) -> Result<Option<Given>, String> {
    let answer = match (raw.resume.take(), raw.answers.take()) {
        (Some(_), Some(_)) => return Err("a call takes `resume` or `answers`: leave one out".to_owned()),
        (Some(answer), None) => Some(Answer::One(answer)),
        (None, answers) => answers.map(Answer::ByText),
    };
    let (update, goto) = (raw.update.take(), raw.goto.take());
    let is_given = answer.is_some() || update.is_some() || goto.is_some();
    Ok(is_given.then(|| Given { answer, update, goto: goto.unwrap_or_default() }))
}

fn durability(name: &str) -> Result<Durability, String> {
    match name {
        "sync" => Ok(Durability::Sync),
        "async" => Ok(Durability::Async),
        "exit" => Ok(Durability::Exit),
        other => Err(format!("`durability` is `{other}`: it can be `sync`, `async` or `exit`")),
    }
}

impl TryFrom<RawCall> for Call {
    type Error = String;

    fn try_from(mut raw: RawCall) -> Result<Self, String> {
        let given = given(&mut raw)?;
        let durability = raw.durability.as_deref().map(durability).transpose()?;
        let ask = exactly_one(
            "a call",
            "`invoke`, `resume` (or `answers`, `update`, `goto`), `update_state`, `state` and `history`",
            [
                raw.invoke.map(Ask::Invoke),
                given.map(Ask::Resume),
                raw.update_state.map(|update| Ask::Update(update, raw.as_node)),
                raw.state.map(|_| Ask::State),
                raw.history.map(|_| Ask::History),
            ],
        )?;
        let thread = raw.thread.unwrap_or_else(|| "t1".to_owned());
        let recursion_limit = raw.recursion_limit.unwrap_or(RECURSION_LIMIT);
        Ok(Self { ask, thread, recursion_limit, from: raw.from, durability })
    }
}
