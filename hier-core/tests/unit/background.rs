//! The background runs that a process keeps.

use super::*;

#[tokio::test]
async fn ended_runs_are_dropped_before_the_root_run_ends() {
    let (runs, tracker) = (BackgroundRuns::default(), TaskTracker::new());
    let result = Arc::new("result");
    for thread in ["first", "second"] {
        let end: BackgroundEnd = result.clone();
        let stop = CancellationToken::new();
        let work: BoxFuture<'static, BackgroundEnd> = Box::pin(async move { end });
        let namespace = vec!["sub".to_owned()];
        let run = BackgroundWork { thread: thread.into(), namespace, stop: stop.clone(), pause: stop, work };
        runs.start(run, &tracker).expect("a runtime");
        assert!(runs.end(thread).await.is_some());
        tokio::task::yield_now().await;
        runs.stop_within(&["sub".to_owned()], false);
    }
    // The second run is kept until the next call of a graph ends.
    assert_eq!(Arc::strong_count(&result), 2);
}
