//! Pages of searches: what was asked for, and where the next one begins.

use serde::Serialize;

use crate::answer::As;
use crate::app::Caller;
use crate::error::{ApiError, ApiResult};

/// Which part of a list is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) limit: usize,
    pub(crate) offset: usize,
}

impl Page {
    /// The page, if it is no larger than the server gives.
    pub(crate) fn new(caller: &Caller, limit: Option<usize>, offset: Option<usize>, unless: usize) -> ApiResult<Self> {
        let (limit, most) = (limit.unwrap_or(unless), caller.app.limits.page);
        if limit == 0 || limit > most {
            return Err(ApiError::invalid(format!("`limit`: {limit} is not between 1 and {most}")));
        }
        Ok(Self { limit, offset: offset.unwrap_or(0) })
    }

    /// One more than the page holds, which says whether there is another.
    pub(crate) fn probe(self) -> usize {
        self.limit.saturating_add(1)
    }

    /// The answer: the page, and in headers how far the list is known to go and where the next page begins.
    pub(crate) fn answer<T: Serialize>(self, mut found: Vec<T>) -> As<Vec<T>> {
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        let end = self.offset.saturating_add(found.len());
        let total = end.saturating_add(usize::from(has_more)).to_string();
        let mut response = As::json(&found);
        let headers = response.0.headers_mut();
        if let Ok(total) = total.parse() {
            headers.insert("x-pagination-total", total);
        }
        if has_more && let Ok(next) = end.to_string().parse() {
            headers.insert("x-pagination-next", next);
        }
        response
    }
}
