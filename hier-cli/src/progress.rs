//! A spinner for long operations.

use std::future::Future;
use std::time::Duration;

use indicatif::ProgressBar;

/// The time after which an operation shows a spinner.
const AFTER: Duration = Duration::from_millis(500);

/// Waits for the future. If it takes long and the standard error is a terminal, a spinner shows the operation and the
/// elapsed time.
pub(crate) async fn during<T>(what: &'static str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(AFTER, &mut work).await {
        return done;
    }
    let bar = ProgressBar::new_spinner().with_message(what).with_elapsed(AFTER);
    bar.set_style(indicatif::ProgressStyle::with_template("{spinner} {msg} {elapsed}").unwrap_or_else(|_| {
        indicatif::ProgressStyle::default_spinner() // the template is constant and valid
    }));
    bar.enable_steady_tick(Duration::from_millis(100));
    let done = work.await;
    bar.finish_and_clear();
    done
}
