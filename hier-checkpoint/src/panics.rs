//! Panics of user code. They become errors with the source location.
//!
//! Only a panic hook receives the location. The hook here stores it on the panicking thread, for the code that catches
//! the panic there, and calls the previous hook. If the program replaces the hook later, no location is known.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;
use std::thread;

struct PanicNote {
    text: Option<String>,
    place: String,
}

thread_local! {
    /// True if a panic was noted since the last call of [`catch`].
    static IS_FRESH: Cell<bool> = const { Cell::new(false) };
    static NOTE: RefCell<Option<PanicNote>> = const { RefCell::new(None) };
}

/// Installs the panic hook that records the location of each panic, so that [`text`] can show it. A second call has no
/// effect.
#[inline]
pub fn note_places() {
    static INSTALLED: Once = Once::new();
    // A panicking thread cannot change the hook. A later call installs it.
    if INSTALLED.is_completed() || thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            note(info);
            before(info);
        }));
    });
}

/// Records a panic. A panic in this function would abort the process.
fn note(info: &PanicHookInfo<'_>) {
    let Some(place) = info.location() else { return };
    let made = PanicNote { text: said(info.payload()).map(str::to_owned), place: place.to_string() };
    let _ = NOTE.try_with(|note| note.try_borrow_mut().map(|mut note| *note = Some(made)));
    let _ = IS_FRESH.try_with(|is_fresh| is_fresh.set(true));
}

/// Runs a function. Returns the payload of its panic as an error. To describe the panic, pass the payload to [`text`]
/// on the same thread.
#[inline]
pub fn catch<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    let _ = IS_FRESH.try_with(|is_fresh| is_fresh.set(false));
    panic::catch_unwind(AssertUnwindSafe(work))
}

/// Runs a future. Returns the payload of its panic as an error. To describe the panic, pass the payload to [`text`] on
/// the same thread.
pub async fn caught<T>(work: impl Future<Output = T>) -> thread::Result<T> {
    let mut work = pin!(work);
    poll_fn(|context| match catch(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(payload) => Poll::Ready(Err(payload)),
    })
    .await
}

/// Returns the message of the panic that [`catch`] or [`caught`] has just returned on this thread. Adds the location of
/// the panic if the hook from [`note_places`] recorded it.
pub fn text(payload: &(dyn Any + Send)) -> String {
    let text = said(payload);
    let message = text.unwrap_or("no message");
    match place(text) {
        Some(place) => format!("{message} (at {place})"),
        None => message.to_owned(),
    }
}

/// Returns the location of the panic with this text, if no other panic was caught meanwhile.
fn place(text: Option<&str>) -> Option<String> {
    if !IS_FRESH.try_with(|is_fresh| is_fresh.replace(false)).unwrap_or(false) {
        return None;
    }
    let note = NOTE.try_with(|note| note.try_borrow_mut().ok()?.take()).ok()??;
    (note.text.as_deref() == text).then_some(note.place)
}

fn said(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
