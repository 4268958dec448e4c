//! The calls of savers as a list, for those who pass them on.

/// Calls a macro with its own input, followed by the `async` methods of [`Checkpointer`](crate::checkpoint::Checkpointer) as
/// `async fn name(argument: Type) -> Output;` in two groups of braces: first the methods that stand for themselves, then those whose
/// default body calls one of the first. An `impl` that passes calls on has `deny(clippy::missing_trait_methods)`, so that a method which is missing
/// here is an error there.
#[doc(hidden)]
#[macro_export]
macro_rules! __hier_saver_calls {
    ($then:ident! { $($given:tt)* }) => {
        $then! {
            $($given)*
            {
                async fn acquire(thread: &str, claim: $crate::checkpoint::Claim) -> $crate::checkpoint::Lease;
                async fn renew(lease: &$crate::checkpoint::Lease) -> ();
                async fn release(lease: &$crate::checkpoint::Lease) -> ();
                async fn commit(lease: &$crate::checkpoint::Lease, records: Vec<$crate::checkpoint::Record>) -> ();
                async fn get(
                    thread: &str, namespace: &str, id: Option<uuid::Uuid>
                ) -> Option<$crate::checkpoint::Saved>;
                async fn list(query: $crate::checkpoint::ListQuery) -> Vec<$crate::checkpoint::Listed>;
                async fn threads(limit: Option<usize>) -> Vec<$crate::checkpoint::ThreadInfo>;
                async fn delete_thread(thread: &str) -> ();
                async fn copy_thread(from: &str, to: &str) -> ();
                async fn delete_for_runs(runs: &[String]) -> ();
                async fn prune(prune: $crate::checkpoint::Prune) -> u64;
                async fn sweep() -> u64;
                async fn post(thread: &str, graph: &str, letter: $crate::checkpoint::Letter) -> bool;
                async fn mail(thread: &str) -> Vec<$crate::checkpoint::Posted>;
                async fn due(query: $crate::checkpoint::DueQuery) -> Vec<$crate::checkpoint::DueThread>;
            }
            {
                async fn commit_also(
                    lease: &$crate::checkpoint::Lease,
                    records: Vec<$crate::checkpoint::Record>,
                    also: $crate::checkpoint::Also
                ) -> ();
                async fn commit_last(
                    lease: &$crate::checkpoint::Lease,
                    records: Vec<$crate::checkpoint::Record>,
                    also: $crate::checkpoint::Also
                ) -> bool;
                async fn get_changed(
                    thread: &str,
                    namespace: &str,
                    id: Option<uuid::Uuid>,
                    known: &[(std::sync::Arc<str>, uuid::Uuid)]
                ) -> Option<$crate::checkpoint::Saved>;
            }
        }
    };
}
#[doc(hidden)]
pub use __hier_saver_calls as saver_calls;
