//! Rows that could not be read while the others were encrypted again.

use hier_checkpoint::backend::retention::{Unread, UnreadRows};
use hier_checkpoint::checkpoint::SaverError;

use crate::retention::{damaged, text};

/// The rows of a page, none of which can be read.
fn rows(places: impl IntoIterator<Item = usize>) -> UnreadRows {
    let mut unread = UnreadRows::default();
    for place in places {
        let mut seen = false;
        let row = Err(SaverError::Unusable { place: format!("row {place}"), reason: "bad bytes".to_owned() });
        let read: Option<()> = unread.pass(row, |_| seen = true).expect("skipped");
        assert!(read.is_none() && seen);
    }
    unread
}

#[test]
fn unreadable_rows_are_reported_after_the_others() {
    let mut unread = UnreadRows::default();
    assert_eq!(unread.pass(Ok(7), |_| panic!("it was read")).expect("a result"), Some(7));
    assert!(text(unread.pass::<()>(damaged("a"), |_| panic!("another error"))).contains("thread `a`"));
    assert!(unread.report(Unread::default()).is_ok(), "all rows were read");
    let one = text(rows([0]).report(Unread::default()));
    assert_eq!(one, "row 0 cannot be used: bad bytes (the other rows were processed)");
    let many = text(rows(0..13).report(Unread::default()));
    let names: Vec<String> = (1..=10).map(|place| format!("row {place}")).collect();
    assert!(many.contains(&format!("12 more rows cannot be read either: {} (the", names.join(", "))), "{many}");
}

#[test]
fn unreadable_rows_of_pages_are_counted_together() {
    let mut unread = UnreadRows::default();
    unread.add(rows([]));
    unread.add(rows([3, 4]));
    unread.add(rows([]));
    unread.add(rows([7, 8]));
    let text_of_all = text(unread.report(Unread::default()));
    assert!(text_of_all.contains("3 more rows cannot be read either: row 4, row 7, row 8 ("), "{text_of_all}");
    let mut unread = rows(0..9);
    unread.add(rows(20..25));
    let most = text(unread.report(Unread::default()));
    assert!(most.contains("13 more rows") && most.contains("row 20, row 21 ("), "{most}");
}

#[test]
fn unreadable_threads_and_rows_are_one_report() {
    let threads = || {
        let mut threads = Unread::default();
        threads.pass::<()>(damaged("a")).expect("skipped");
        threads
    };
    let both = text(rows([0]).report(threads()));
    assert!(both.contains("thread `a`") && both.contains("; and row 0: bad bytes"), "{both}");
    assert!(text(UnreadRows::default().report(threads())).contains("thread `a`"));
}
