//! Texts: Postgres takes every text but those with a NUL.

use std::borrow::Cow;
use std::sync::Arc;

/// A text that Postgres takes, from which [`unescape`] makes the first again.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', '\\']) {
        Cow::Owned(text.replace('\\', "\\\\").replace('\0', "\\0"))
    } else {
        Cow::Borrowed(text)
    }
}

pub(crate) fn unescape(text: &str) -> Arc<str> {
    if !text.contains('\\') {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        if letter == '\\' && rest.next() == Some('0') {
            plain.push('\0');
        } else {
            plain.push(letter);
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn every_text_comes_back() {
        for text in ["", "plain", "\0", "\\", "\\0", "\\\0", "\0\\0\\\\\0", "a\\b\0c", "\\\\"] {
            let escaped = escape(text);
            assert!(!escaped.contains('\0'), "{text:?}");
            assert_eq!(&*unescape(&escaped), text);
        }
    }
}
