//! The calls of stores of runs as a list, for those who pass them on.

/// Lists the `async` methods of [`RunStore`](crate::runs::RunStore) as [`saver_calls`](crate::checkpoint::saver_calls) lists those of a saver.
#[doc(hidden)]
#[macro_export]
macro_rules! __hier_run_calls {
    ($then:ident! { $($given:tt)* }) => {
        $then! {
            $($given)*
            {
                async fn create_thread(thread: $crate::runs::NewThread) -> $crate::runs::ThreadRow;
                async fn thread(id: &str) -> Option<$crate::runs::ThreadRow>;
                async fn update_thread(id: &str, patch: $crate::runs::ThreadPatch) -> $crate::runs::ThreadRow;
                async fn search_threads(query: $crate::runs::ThreadQuery) -> Vec<$crate::runs::ThreadRow>;
                async fn count_threads(query: $crate::runs::ThreadQuery) -> u64;
                async fn remove_thread(id: &str) -> bool;
                async fn remove_thread_if(id: &str, is: $crate::runs::ThreadIs) -> bool;
                async fn clone_thread(from: &str, to: $crate::runs::NewThread) -> $crate::runs::ThreadRow;
                async fn create_run(run: $crate::runs::NewRun) -> $crate::runs::Run;
                async fn run(id: uuid::Uuid) -> Option<$crate::runs::Run>;
                async fn runs(query: $crate::runs::RunQuery) -> Vec<$crate::runs::Run>;
                async fn remove_run(id: uuid::Uuid) -> bool;
                async fn cancel_runs(
                    thread: &str, runs: &[uuid::Uuid], action: $crate::runs::Cancel
                ) -> Vec<$crate::runs::Run>;
                async fn cancel_runs_if(
                    thread: &str, is: $crate::runs::ThreadIs, runs: &[uuid::Uuid], action: $crate::runs::Cancel
                ) -> Vec<$crate::runs::Run>;
                async fn post_if(
                    thread: &str, is: $crate::runs::ThreadIs, graph: &str, letter: $crate::checkpoint::Letter
                ) -> bool;
                async fn claim_run(claim: $crate::runs::RunClaim) -> Option<$crate::runs::Claimed>;
                async fn record(lease: &$crate::checkpoint::Lease, settlement: $crate::runs::Settlement) -> u64;
                async fn hand_back(lease: &$crate::checkpoint::Lease, run: uuid::Uuid) -> ();
                async fn events(query: $crate::runs::EventQuery) -> $crate::runs::EventPage;
                async fn prune_runs(older_than: std::time::Duration) -> (u64, u64);
                async fn document(kind: &str, id: &str) -> Option<$crate::runs::Document>;
                async fn documents(kind: &str) -> Vec<$crate::runs::Document>;
                async fn documents_due(kind: &str, by: std::time::SystemTime) -> Vec<$crate::runs::Document>;
                async fn put_document(document: $crate::runs::Document, replaces: Option<u64>) -> bool;
                async fn remove_document(kind: &str, id: &str) -> bool;
            }
            {
                async fn create_claimed(
                    run: $crate::runs::NewRun, claim: $crate::runs::RunClaim
                ) -> ($crate::runs::Run, Option<$crate::runs::Claimed>);
                async fn claim_runs(claim: $crate::runs::RunClaim, most: usize) -> Vec<$crate::runs::Claimed>;
            }
        }
    };
}
#[doc(hidden)]
pub use __hier_run_calls as run_calls;
