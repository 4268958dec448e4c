//! The tasks of a parallel superstep, for the batch that runs them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::future::BoxFuture;

use crate::engine::attempt::exec::{TaskResult, execute_and_record, resolve, routed};
use crate::engine::attempt::report::is_traced;
use crate::engine::pool::BatchWork;
use crate::engine::program::{NodeResult, Task, TaskKey, TaskResume};
use crate::engine::step::{Applied, StepTasks};
use crate::engine::stream::emitter::Emitter;
use crate::error::NodeError;
use crate::panics;
use crate::state::{Steps, Values};

/// The end of a task: the outcome to apply, or the error.
pub(in crate::engine) type TaskEnd<S> = Result<Applied<S>, FailedTask>;

/// A task that ended with an error. The error may be a question.
pub(in crate::engine) struct FailedTask {
    pub(in crate::engine) node: usize,
    pub(in crate::engine) error: NodeError,
}

pub(in crate::engine) fn task_end<S: Values>(key: TaskKey, result: TaskResult<S>) -> TaskEnd<S> {
    match result {
        Ok(done) => Ok(Applied { node: Some(key.node), pushed: key.send.is_some(), done }),
        Err(error) => Err(FailedTask { node: key.node, error }),
    }
}

/// A task of a resumed superstep that must run, with its earlier progress.
pub(in crate::engine) struct OpenTask {
    pub(in crate::engine) place: usize,
    pub(in crate::engine) resume: Arc<TaskResume>,
}

pub(in crate::engine) struct BatchTasks<S: Values, C> {
    template: Task<S, C>,
    emitter: Option<Arc<Emitter<S>>>,
    step: StepTasks,
    /// None if all tasks of the superstep run.
    open: Option<Vec<OpenTask>>,
    /// True if the tasks are recorded, streamed or traced.
    is_observed: bool,
}

impl<S: Values, C> BatchTasks<S, C> {
    pub(in crate::engine) fn new(
        template: Task<S, C>,
        emitter: Option<Arc<Emitter<S>>>,
        step: StepTasks,
        open: Option<Vec<OpenTask>>,
    ) -> Self {
        let is_observed = emitter.is_some() || template.run.shared.log.is_some() || is_traced();
        Self { template, emitter, step, open, is_observed }
    }

    pub(in crate::engine) fn len(&self) -> usize {
        self.open.as_ref().map_or_else(|| self.step.len(), Vec::len)
    }
}

impl<S: Values, C: Send + Sync + 'static> BatchWork for BatchTasks<S, C> {
    type Task = BatchTask<S, C>;
    /// The task that ended before on the same thread. Its parts are reused.
    type Spare = Box<Task<S, C>>;
    type Result = TaskEnd<S>;

    fn start(&self, place: usize, spare: Option<Box<Task<S, C>>>) -> BatchTask<S, C> {
        let (place, resume) = match &self.open {
            Some(open) => (open[place].place, Some(open[place].resume.clone())),
            None => (place, None),
        };
        let key = self.step.key(place);
        let mut task = spare.unwrap_or_else(|| Box::new(self.template.sibling(key, None)));
        task.run.key = key;
        task.run.resume = resume;
        self.step.set_arg(place, &mut task.arg);
        match self.template.graph.sent_state(key.node, task.arg.as_ref()) {
            Ok(Some(mut state)) => {
                state.set_steps(Steps { remaining: task.run.remaining });
                task.state = Arc::new(state);
            }
            // The previous task may have received a separate state from its Send.
            Ok(None) if !Arc::ptr_eq(&task.state, &self.template.state) => task.state = self.template.state.clone(),
            Ok(None) => {}
            Err(error) => {
                let code = TaskCode::Whole(Box::pin(async move { (task, Err(NodeError::from(error))) }));
                return BatchTask { key, code };
            }
        }
        let node = &self.template.graph.nodes[key.node];
        let code = if node.bare && !self.is_observed {
            TaskCode::Bare(Box::pin(async move {
                let output = (task.graph.nodes[task.run.key.node].body)(&task).await;
                (task, output)
            }))
        } else {
            let emitter = self.emitter.clone();
            TaskCode::Whole(Box::pin(async move {
                let result = execute_and_record(&task, emitter.as_deref()).await;
                (task, result)
            }))
        };
        BatchTask { key, code }
    }
}

pub(in crate::engine) struct BatchTask<S: Values, C> {
    key: TaskKey,
    code: TaskCode<S, C>,
}

enum TaskCode<S: Values, C> {
    /// The code of a node without options, in a run without a log, stream and traces.
    Bare(RunningTask<S, C, NodeResult<S>>),
    Whole(RunningTask<S, C, TaskResult<S>>),
}

type RunningTask<S, C, T> = BoxFuture<'static, (Box<Task<S, C>>, T)>;

impl<S: Values, C: Send + Sync + 'static> Future for BatchTask<S, C> {
    type Output = (Option<Box<Task<S, C>>>, TaskEnd<S>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { key, code } = &mut *self;
        let (task, result) = match code {
            TaskCode::Bare(code) => {
                let mut polled = Poll::Pending;
                if let Err(payload) = panics::catch(|| polled = code.as_mut().poll(context)) {
                    return Poll::Ready((None, Err(FailedTask { node: key.node, error: NodeError::panic(&*payload) })));
                }
                let (task, output) = ready!(polled);
                let done = output.and_then(|output| resolve(&task, output));
                let result = done.and_then(|done| routed(&task, done));
                (task, result)
            }
            TaskCode::Whole(code) => ready!(code.as_mut().poll(context)),
        };
        Poll::Ready((Some(task), task_end(*key, result)))
    }
}
