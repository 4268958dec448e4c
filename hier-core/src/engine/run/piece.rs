//! The tasks of a step of several, as a batch runs them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::future::BoxFuture;

use crate::engine::attempt::exec::{execute_and_tell, resolve, routed};
use crate::engine::attempt::report::is_traced;
use crate::engine::pool::Work;
use crate::engine::program::{Inbox, NodeResult, Task, TaskKey};
use crate::engine::run::runner::TaskResult;
use crate::engine::step::{Applied, StepTasks};
use crate::engine::stream::emitter::Emitter;
use crate::error::NodeError;
use crate::panics;
use crate::state::{Steps, Values};

/// How a task ended: what is applied, or the node that failed, and why.
pub(in crate::engine) type Ended<S> = Result<Applied<S>, (usize, NodeError)>;

/// How the task of this key ended.
pub(in crate::engine) fn ended<S: Values>(key: TaskKey, result: TaskResult<S>) -> Ended<S> {
    match result {
        Ok(done) => Ok(Applied { node: Some(key.node), pushed: key.send.is_some(), done }),
        Err(error) => Err((key.node, error)),
    }
}

/// The tasks of a step that run.
pub(in crate::engine) struct Tasks<S: Values, C> {
    /// What they are copies of.
    template: Task<S, C>,
    emitter: Option<Arc<Emitter<S>>>,
    step: StepTasks,
    /// Those that run, with what is known of each, if others have run before.
    open: Option<Vec<(usize, Arc<Inbox>)>>,
    /// Whether somebody wants to know what a task does.
    is_told: bool,
}

impl<S: Values, C> Tasks<S, C> {
    pub(in crate::engine) fn new(
        template: Task<S, C>,
        emitter: Option<Arc<Emitter<S>>>,
        step: StepTasks,
        open: Option<Vec<(usize, Arc<Inbox>)>>,
    ) -> Self {
        let is_told = emitter.is_some() || template.run.shared.log.is_some() || is_traced();
        Self { template, emitter, step, open, is_told }
    }

    pub(in crate::engine) fn len(&self) -> usize {
        self.open.as_ref().map_or_else(|| self.step.len(), Vec::len)
    }
}

impl<S: Values, C: Send + Sync + 'static> Work for Tasks<S, C> {
    type Task = Piece<S, C>;
    /// What a task borrows is mostly what the next one does.
    type Spare = Box<Task<S, C>>;
    type Result = Ended<S>;

    fn start(&self, place: usize, spare: Option<Box<Task<S, C>>>) -> Piece<S, C> {
        let (place, inbox) = match &self.open {
            Some(open) => (open[place].0, Some(open[place].1.clone())),
            None => (place, None),
        };
        let key = self.step.key(place);
        let mut task = spare.unwrap_or_else(|| Box::new(self.template.sibling(key, None)));
        task.run.key = key;
        task.run.inbox = inbox;
        self.step.set_arg(place, &mut task.arg);
        match self.template.graph.sent_state(key.node, task.arg.as_ref()) {
            Ok(Some(mut state)) => {
                state.set_steps(Steps { remaining: task.run.remaining });
                task.state = Arc::new(state);
            }
            // The previous task may have received its own state.
            Ok(None) if !Arc::ptr_eq(&task.state, &self.template.state) => task.state = self.template.state.clone(),
            Ok(None) => {}
            Err(error) => {
                let code = Code::Whole(Box::pin(async move { (task, Err(NodeError::from(error))) }));
                return Piece { key, code };
            }
        }
        let node = &self.template.graph.nodes[key.node];
        let code = if node.bare && !self.is_told {
            Code::Bare(Box::pin(async move {
                let output = (task.graph.nodes[task.run.key.node].body)(&task).await;
                (task, output)
            }))
        } else {
            let emitter = self.emitter.clone();
            Code::Whole(Box::pin(async move {
                let result = execute_and_tell(&task, emitter.as_deref()).await;
                (task, result)
            }))
        };
        Piece { key, code }
    }
}

/// A task of a step of several.
pub(in crate::engine) struct Piece<S: Values, C> {
    key: TaskKey,
    code: Code<S, C>,
}

enum Code<S: Values, C> {
    /// A node without options of which nobody wants to know: nothing but its code.
    Bare(Running<S, C, NodeResult<S>>),
    Whole(Running<S, C, TaskResult<S>>),
}

/// What runs a task, and hands it back with what came of it.
type Running<S, C, T> = BoxFuture<'static, (Box<Task<S, C>>, T)>;

impl<S: Values, C: Send + Sync + 'static> Future for Piece<S, C> {
    type Output = (Option<Box<Task<S, C>>>, Ended<S>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { key, code } = &mut *self;
        let (task, result) = match code {
            Code::Bare(code) => {
                let mut polled = Poll::Pending;
                if let Err(payload) = panics::catch(|| polled = code.as_mut().poll(context)) {
                    return Poll::Ready((None, Err((key.node, NodeError::panic(&*payload)))));
                }
                let (task, output) = ready!(polled);
                let done = output.and_then(|output| resolve(&task, output));
                let result = done.and_then(|done| routed(&task, done));
                (task, result)
            }
            Code::Whole(code) => ready!(code.as_mut().poll(context)),
        };
        Poll::Ready((Some(task), ended(*key, result)))
    }
}
