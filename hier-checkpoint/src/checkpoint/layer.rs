use std::sync::Arc;

use futures_core::future::BoxFuture;
use uuid::Uuid;

use super::{Capabilities, Checkpointer, Claim, Commit, Lease, LeaseState, ListQuery, Listed, Saved, SaverError};

/// Writes the methods of a saver. Each method calls the same method of a trait on another object. The signatures are
/// those that `async_trait` generates: an `async fn` would box the future of the inner saver a second time.
macro_rules! forward {
    ($trait:ident, $self:ident => $target:expr) => {
        forward! {
            $trait, $self, $target;
            acquire<'life1>(thread: &'life1 str, claim: Claim) -> Lease;
            renew<'life1>(lease: &'life1 Lease) -> ();
            release<'life1>(lease: &'life1 Lease) -> ();
            commit<'life1>(lease: &'life1 Lease, commit: Commit) -> LeaseState;
            get<'life1, 'life2>(thread: &'life1 str, namespace: &'life2 str, id: Option<Uuid>) -> Option<Saved>;
            list(query: ListQuery) -> Vec<Listed>;
            delete_thread<'life1>(thread: &'life1 str) -> ();
        }
    };
    (
        $trait:ident, $self:ident, $target:expr;
        $($method:ident $(<$($lifetime:lifetime),+>)? ($($argument:ident: $type:ty),*) -> $output:ty;)+
    ) => {$(
        #[allow(missing_docs)]
        fn $method<'life0, $($($lifetime,)+)? 'async_trait>(
            &'life0 $self,
            $($argument: $type),*
        ) -> BoxFuture<'async_trait, Result<$output, SaverError>>
        where
            'life0: 'async_trait,
            $($($lifetime: 'async_trait,)+)?
            Self: 'async_trait,
        {
            $trait::$method($target, $($argument),*)
        }
    )+};
}

/// A saver that wraps another saver. Each method forwards to the [`inner`](Self::inner) saver unless you override it. A
/// type that implements this trait is also a [`Checkpointer`].
///
/// By default, a layer has the capabilities of the inner saver. A layer that overrides [`get`](Self::get) must override
/// [`capabilities`](Self::capabilities) and leave out the [cache](Capabilities::cache). Otherwise the engine reads
/// through the cache of the inner saver and does not call `get`. A layer that changes inboxes implements
/// [`Inbox`](super::Inbox) and returns itself in [`capabilities`](Self::capabilities).
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use hier_checkpoint::checkpoint::{Checkpointer, Commit, Lease, LeaseState, MemorySaver, SaverError, SaverLayer};
///
/// /// Counts the commits.
/// #[derive(Default)]
/// struct CommitCounter {
///     memory: MemorySaver,
///     commits: AtomicUsize,
/// }
///
/// #[hier_checkpoint::async_trait]
/// impl SaverLayer for CommitCounter {
///     type Inner = MemorySaver;
///
///     fn inner(&self) -> &MemorySaver {
///         &self.memory
///     }
///
///     async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
///         self.commits.fetch_add(1, Ordering::Relaxed);
///         self.memory.commit(lease, commit).await
///     }
/// }
///
/// // A graph takes it with `compile().checkpointer(saver)`.
/// let saver: Box<dyn Checkpointer> = Box::new(CommitCounter::default());
/// assert!(saver.inbox().is_ok());
/// ```
pub trait SaverLayer: Send + Sync + 'static {
    /// The type of the inner saver. It may be `dyn Checkpointer`.
    type Inner: Checkpointer + ?Sized;

    /// Returns the inner saver.
    fn inner(&self) -> &Self::Inner;

    forward! { Checkpointer, self => self.inner() }

    /// Returns the capabilities of this saver. Defaults to those of the inner saver.
    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities()
    }
}

// Otherwise the compiler would advise a user to implement `SaverLayer` for a type that is not a saver.
#[diagnostic::do_not_recommend]
impl<T: SaverLayer> Checkpointer for T {
    forward! { SaverLayer, self => self }

    fn capabilities(&self) -> Capabilities<'_> {
        SaverLayer::capabilities(self)
    }
}

impl<T: Checkpointer + ?Sized> Checkpointer for Arc<T> {
    forward! { Checkpointer, self => &**self }

    fn capabilities(&self) -> Capabilities<'_> {
        (**self).capabilities()
    }
}
