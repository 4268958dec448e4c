//! The context of runs: a value, or a function of the thread's id.

/// A context for [`Endpoint::graph`](crate::Endpoint::graph): a value, or a function that takes the id of a thread and
/// returns a value. Whenever the worker executes a part of a run, it clones the value or calls the function.
///
/// `M` is a marker, which the compiler infers.
pub trait IntoContext<C, M>: Send + Sync + 'static {
    /// Returns the context for the runs of this thread.
    fn context(&self, thread: &str) -> C;
}

/// The marker for an [`IntoContext`] that is a value.
#[derive(Debug)]
pub struct ContextByValue(());

/// The marker for an [`IntoContext`] that is a function.
#[derive(Debug)]
pub struct ContextByThread(());

impl<C: Clone + Send + Sync + 'static> IntoContext<C, ContextByValue> for C {
    fn context(&self, _thread: &str) -> C {
        self.clone()
    }
}

impl<C, F: Fn(&str) -> C + Send + Sync + 'static> IntoContext<C, ContextByThread> for F {
    fn context(&self, thread: &str) -> C {
        self(thread)
    }
}
