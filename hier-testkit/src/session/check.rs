//! Assertions on traces.

use std::fmt::{Debug, Display};
use std::ops::RangeBounds;

use hier_core::{Outcome, RunError};
use serde_json::Value;

use super::trace::Trace;

impl<O> Trace<O> {
    #[track_caller]
    fn check(&self, holds: bool, wrong: impl Display) -> &Self {
        assert!(self.lost == 0, "cannot check the run, because {} events were lost; the run was:\n{self}", self.lost);
        assert!(holds, "{wrong}; the run was:\n{self}");
        self
    }

    /// Asserts that the run has finished, and returns the output of the graph. If the graph declares no output, the
    /// output is the state.
    ///
    /// # Panics
    ///
    /// Panics if the run has not finished.
    #[track_caller]
    pub fn assert_finished(&self) -> &O {
        match &self.result {
            Ok(Outcome::Finished(output)) => output,
            _ => panic!("the run has not finished; the run was:\n{self}"),
        }
    }

    /// Asserts that the run waits for people to answer exactly this number of questions. A run that does not wait, or
    /// has failed, has 0 open questions.
    #[track_caller]
    pub fn assert_waits_for(&self, questions: usize) -> &Self {
        let open = match &self.result {
            Ok(Outcome::Interrupted(asked)) => asked.questions.iter().filter(|asked| asked.kind.is_person()).count(),
            _ => 0,
        };
        self.check(open == questions, format_args!("the run waits for {open} answers instead of {questions}"))
    }

    /// Asserts that the run failed with an error whose message contains `part`, and returns the error.
    ///
    /// # Panics
    ///
    /// Panics if the run has not failed, or if the message of the error does not contain `part`.
    #[track_caller]
    pub fn assert_failed(&self, part: &str) -> &RunError {
        match &self.result {
            Err(error) if error.to_string().contains(part) => error,
            _ => panic!("the run has not failed with `{part}`; the run was:\n{self}"),
        }
    }

    /// Asserts that exactly these nodes of the root graph completed. List the nodes in the order in which they started.
    #[track_caller]
    pub fn assert_nodes<'a>(&self, nodes: impl IntoIterator<Item = &'a str>) -> &Self {
        let (ran, wanted) = (self.nodes(), nodes.into_iter().collect::<Vec<_>>());
        self.check(ran == wanted, format_args!("{ran:?} ran instead of {wanted:?}"))
    }

    /// Asserts that a node with this name completed, in the root graph or a subgraph.
    #[track_caller]
    pub fn assert_ran(&self, node: &str) -> &Self {
        self.check(self.ran(node), format_args!("`{node}` did not run"))
    }

    /// Asserts that no node with this name completed.
    #[track_caller]
    pub fn assert_did_not_run(&self, node: &str) -> &Self {
        self.check(!self.ran(node), format_args!("`{node}` ran"))
    }

    fn ran(&self, node: &str) -> bool {
        self.tasks.iter().any(|task| task.node == node && task.is_done())
    }

    /// Asserts that models called exactly these tools, in this order.
    #[track_caller]
    pub fn assert_calls<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> &Self {
        let (calls, wanted) = (self.called_tools(), tools.into_iter().collect::<Vec<_>>());
        self.check(calls == wanted, format_args!("{calls:?} were called instead of {wanted:?}"))
    }

    /// Asserts that models called these tools in this order. The assertion ignores other calls before, between and
    /// after them.
    #[track_caller]
    pub fn assert_order<'a>(&self, tools: impl IntoIterator<Item = &'a str>) -> &Self {
        let (calls, wanted) = (self.called_tools(), tools.into_iter().collect::<Vec<_>>());
        let mut left = calls.iter();
        let in_order = wanted.iter().all(|wanted| left.any(|call| call == wanted));
        self.check(in_order, format_args!("{calls:?} were called, not {wanted:?} in this order"))
    }

    /// Asserts that a model called this tool, and that the arguments of the call contain `args`. The call may have
    /// further arguments.
    #[track_caller]
    pub fn assert_called(&self, tool: &str, args: &Value) -> &Self {
        let answers = self.answers.iter().flat_map(|answer| answer.message.tool_calls());
        let found = answers.filter(|call| call.name == tool).any(|call| contains(&call.args, args));
        self.check(found, format_args!("no call of `{tool}` has {args}"))
    }

    /// Asserts that no model called this tool.
    #[track_caller]
    pub fn assert_not_called(&self, tool: &str) -> &Self {
        self.check(!self.called_tools().contains(&tool), format_args!("`{tool}` was called"))
    }

    /// Asserts that the number of model calls is in this range, such as `..=3`.
    #[track_caller]
    pub fn assert_model_calls(&self, calls: impl RangeBounds<usize> + Debug) -> &Self {
        let made = self.model_calls();
        self.check(calls.contains(&made), format_args!("models were called {made} times, not {calls:?}"))
    }

    /// Asserts that the number of tokens that models reported is in this range, such as `..=5_000`.
    #[track_caller]
    pub fn assert_tokens(&self, tokens: impl RangeBounds<u64> + Debug) -> &Self {
        let used = self.usage().total();
        self.check(tokens.contains(&used), format_args!("the models used {used} tokens, not {tokens:?}"))
    }

    fn called_tools(&self) -> Vec<&str> {
        let calls = self.answers.iter().flat_map(|answer| answer.message.tool_calls());
        calls.map(|call| &*call.name).collect()
    }
}

/// Returns true if the values are equal. An object may have more fields than the wanted object.
fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| contains(value, wanted)))
        }
        (value, wanted) => value == wanted,
    }
}
