//! Assertions over what a run did.

use std::fmt::{Debug, Display};
use std::ops::RangeBounds;

use hier_core::{Outcome, RunError};
use serde_json::Value;

use super::trace::Trace;

impl<O> Trace<O> {
    /// Fails unless this holds.
    #[track_caller]
    fn check(&self, holds: bool, wrong: impl Display) -> &Self {
        assert!(self.lost == 0, "{} events were lost, so nothing can be said; the run was:\n{self}", self.lost);
        assert!(holds, "{wrong}; the run was:\n{self}");
        self
    }

    /// Returns the state, or the output, of a run that has finished.
    ///
    /// # Panics
    ///
    /// If it has not finished.
    #[track_caller]
    pub fn assert_finished(&self) -> &O {
        match &self.result {
            Ok(Outcome::Finished(output)) => output,
            _ => panic!("it has not finished; the run was:\n{self}"),
        }
    }

    /// Fails unless the run waits for answers to so many questions that a person has to answer.
    #[track_caller]
    pub fn assert_waits_for(&self, questions: usize) -> &Self {
        let open = match &self.result {
            Ok(Outcome::Interrupted(asked)) => asked.questions.iter().filter(|asked| asked.kind.is_person()).count(),
            _ => 0,
        };
        self.check(open == questions, format_args!("it waits for {open} answers instead of {questions}"))
    }

    /// Returns the error of a run that failed with a message that has this text in it.
    ///
    /// # Panics
    ///
    /// If it has not failed, or with another message.
    #[track_caller]
    pub fn assert_failed(&self, part: &str) -> &RunError {
        match &self.result {
            Err(error) if error.to_string().contains(part) => error,
            _ => panic!("it has not failed with `{part}`; the run was:\n{self}"),
        }
    }

    /// Fails unless exactly these nodes of the root graph were done, in this order.
    #[track_caller]
    pub fn assert_nodes<'a>(&self, nodes: impl IntoIterator<Item = &'a str>) -> &Self {
        let (ran, wanted) = (self.nodes(), nodes.into_iter().collect::<Vec<_>>());
        self.check(ran == wanted, format_args!("{ran:?} ran instead of {wanted:?}"))
    }

    /// Fails unless a node of this name was done, in the root graph or in one inside it.
    #[track_caller]
    pub fn assert_ran(&self, node: &str) -> &Self {
        self.check(self.ran(node), format_args!("`{node}` did not run"))
    }

    /// Fails if a node of this name was done.
    #[track_caller]
    pub fn assert_did_not_run(&self, node: &str) -> &Self {
        self.check(!self.ran(node), format_args!("`{node}` ran"))
    }

    fn ran(&self, node: &str) -> bool {
        self.tasks.iter().any(|task| task.node == node && task.is_done())
    }

    /// Fails unless models wanted exactly these calls, in this order.
    #[track_caller]
    pub fn assert_calls<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> &Self {
        let (calls, wanted) = (self.called(), tools.into_iter().collect::<Vec<_>>());
        self.check(calls == wanted, format_args!("{calls:?} were called instead of {wanted:?}"))
    }

    /// Fails unless these tools were called in this order; others may have been called before, between and after.
    #[track_caller]
    pub fn assert_order<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> &Self {
        let (calls, wanted) = (self.called(), tools.into_iter().collect::<Vec<_>>());
        let mut left = calls.iter();
        let in_order = wanted.iter().all(|wanted| left.any(|call| call == wanted));
        self.check(in_order, format_args!("{calls:?} were called, which are not {wanted:?} in this order"))
    }

    /// Fails unless a call of this tool had these arguments: those that are given are equal, others may be there.
    #[track_caller]
    pub fn assert_called(&self, tool: &str, args: &Value) -> &Self {
        let answers = self.answers.iter().flat_map(|answer| answer.message.tool_calls());
        let found = answers.filter(|call| call.name == tool).any(|call| has(&call.args, args));
        self.check(found, format_args!("no call of `{tool}` has {args}"))
    }

    /// Fails if this tool was called.
    #[track_caller]
    pub fn assert_not_called(&self, tool: &str) -> &Self {
        self.check(!self.called().contains(&tool), format_args!("`{tool}` was called"))
    }

    /// Fails unless models were asked so often: `assert_model_calls(..=3)`.
    #[track_caller]
    pub fn assert_model_calls(&self, calls: impl RangeBounds<usize> + Debug) -> &Self {
        let made = self.model_calls();
        self.check(calls.contains(&made), format_args!("models were asked {made} times, not {calls:?}"))
    }

    /// Fails unless the models' answers cost so many tokens, as far as the models say what they cost.
    #[track_caller]
    pub fn assert_tokens(&self, tokens: impl RangeBounds<u64> + Debug) -> &Self {
        let used = self.usage().total();
        self.check(tokens.contains(&used), format_args!("the models used {used} tokens, not {tokens:?}"))
    }

    /// The tools that were called, in order.
    fn called(&self) -> Vec<&str> {
        let calls = self.answers.iter().flat_map(|answer| answer.message.tool_calls());
        calls.map(|call| &*call.name).collect()
    }
}

/// Whether a value is this one, or an object that has all of its fields.
fn has(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| has(value, wanted)))
        }
        (value, wanted) => value == wanted,
    }
}
