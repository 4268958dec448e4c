//! Finds secrets and replaces them with marks. The layer [`Redact`] declares the finders. Calls of models and tools use
//! them.

mod escapes;
mod find;
mod redact;
mod redactor;

use std::sync::Arc;

pub use find::{CardNumbers, Emails, Find, IpAddresses, Texts};
pub use redact::Redact;
pub(super) use redactor::{Redactor, RedactorOf};

/// A finder of secrets, and the mark that replaces them.
pub(super) struct Pattern {
    pub(super) find: Arc<dyn Find>,
    pub(super) mark: String,
}

impl Pattern {
    /// Finds the first secret from this byte on.
    fn first(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let rest = text.get(from..)?;
        let found = self.find.find(rest)?;
        let is_right = found.start < found.end && rest.get(found.clone()).is_some();
        let start = (0..=found.start.min(rest.len())).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or_default();
        let end = if is_right { found.end } else { rest.len() };
        (start < end).then_some((from + start, from + end))
    }
}
