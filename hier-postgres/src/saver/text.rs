//! Escapes texts, because texts in Postgres cannot contain NUL, and encodes the holders of threads.

use std::borrow::Cow;
use std::sync::Arc;

use uuid::Uuid;

/// Encodes a text without NUL. Keeps the order of texts. [`unescape`] is the inverse.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', '\u{1}']) {
        Cow::Owned(text.replace('\u{1}', "\u{1}\u{2}").replace('\0', "\u{1}\u{1}"))
    } else {
        Cow::Borrowed(text)
    }
}

pub(crate) fn unescape(text: &str) -> Arc<str> {
    if !text.contains('\u{1}') {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        if letter == '\u{1}' && rest.next() == Some('\u{1}') {
            plain.push('\0');
        } else {
            plain.push(letter);
        }
    }
    plain.into()
}

/// Returns the stored holder of a thread: its name and an id of the claim. By this id, a repeated claim whose answer
/// was lost recognizes itself.
pub(super) fn claimed_by(holder: &str) -> String {
    escape(&format!("{holder}\0{}", Uuid::new_v4().simple())).into_owned()
}

/// Returns the name of a stored holder.
pub(super) fn holder(stored: &str) -> String {
    let stored = unescape(stored);
    stored.rsplit_once('\0').map_or(&*stored, |(holder, _)| holder).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{claimed_by, escape, holder, unescape};

    #[test]
    fn each_claim_has_a_distinct_token() {
        for name in ["", "desk 7", "a\\b\0c\0"] {
            assert_eq!(holder(&claimed_by(name)), name);
            assert_ne!(claimed_by(name), claimed_by(name));
        }
    }

    #[test]
    fn every_text_round_trips_and_keeps_its_place() {
        let sorted =
            ["", "\0", "\0\0", "\0\u{1}", "\u{1}", "\u{1}\0", "\u{1}\u{1}", "\u{2}", "a", "a\0b", "a\u{1}", "a\u{2}"];
        for text in sorted {
            let escaped = escape(text);
            assert!(!escaped.contains('\0'), "{text:?}");
            assert_eq!(&*unescape(&escaped), text);
        }
        assert!(sorted.map(escape).is_sorted());
    }
}
