//! The context of runs: a value for all of them, or a function of the thread.

/// A value that every piece of a run gets a clone of, or a function of the thread's id: what
/// [`Endpoint::graph`](crate::Endpoint::graph) takes as context. `M` tells the two apart, and is never written.
pub trait IntoContext<C, M>: Send + Sync + 'static {
    /// The context of a piece of a run of this thread.
    fn context(&self, thread: &str) -> C;
}

/// Marks a value.
#[derive(Debug)]
pub struct ByValue(());

/// Marks a function.
#[derive(Debug)]
pub struct ByFunction(());

impl<C: Clone + Send + Sync + 'static> IntoContext<C, ByValue> for C {
    fn context(&self, _thread: &str) -> C {
        self.clone()
    }
}

impl<C, F: Fn(&str) -> C + Send + Sync + 'static> IntoContext<C, ByFunction> for F {
    fn context(&self, thread: &str) -> C {
        self(thread)
    }
}
