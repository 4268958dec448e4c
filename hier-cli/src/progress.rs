//! Shows that something takes long.

use std::future::Future;
use std::time::Duration;

use indicatif::ProgressBar;

/// What is done sooner is not worth a word.
const AFTER: Duration = Duration::from_millis(500);

/// Waits for the future. If that takes a moment, and a person looks at the standard error, they see what is being done and
/// for how long.
pub(crate) async fn during<T>(what: &'static str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(AFTER, &mut work).await {
        return done;
    }
    let bar = ProgressBar::new_spinner().with_message(what).with_elapsed(AFTER);
    bar.set_style(indicatif::ProgressStyle::with_template("{spinner} {msg} {elapsed}").unwrap_or_else(|_| {
        indicatif::ProgressStyle::default_spinner() // the template is ours, so that does not happen
    }));
    bar.enable_steady_tick(Duration::from_millis(100));
    let done = work.await;
    bar.finish_and_clear();
    done
}
