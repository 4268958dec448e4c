//! The context of runs: a value, or a function of the thread.

/// A context for [`Endpoint::graph`](crate::Endpoint::graph): a value that is cloned for each slice, or a function of
/// the thread's id. `M` distinguishes the two and is always inferred.
pub trait IntoContext<C, M>: Send + Sync + 'static {
    /// Returns the context for a run of this thread.
    fn context(&self, thread: &str) -> C;
}

/// The marker of a value.
#[derive(Debug)]
pub struct ContextByValue(());

/// The marker of a function.
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
