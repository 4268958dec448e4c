use std::cmp::Ordering;

use serde::Serialize;

use crate::answer::As;
use crate::app::Caller;
use crate::error::{ApiError, ApiResult};

/// The number and the position of the results that a client requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) limit: usize,
    pub(crate) offset: usize,
}

impl Page {
    /// Creates a page. Refuses a page that is empty or larger than the server's limit.
    pub(crate) fn new(caller: &Caller, limit: Option<usize>, offset: Option<usize>, default: usize) -> ApiResult<Self> {
        let (limit, most) = (limit.unwrap_or(default), caller.app.limits.page);
        if limit == 0 || limit > most {
            return Err(ApiError::invalid(format!("`limit`: {limit} is not between 1 and {most}")));
        }
        Ok(Self { limit, offset: offset.unwrap_or(0) })
    }

    /// Returns the number of results to read. It is one more than the limit of the page, to show whether another page
    /// follows.
    pub(crate) fn probe(self) -> usize {
        self.limit.saturating_add(1)
    }

    /// Responds with the page. The headers contain the length of the list, as far as it is known, and the offset of the
    /// next page.
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

pub(crate) fn unknown_sort(sort_by: &str, known: &str) -> ApiError {
    ApiError::invalid(format!("`sort_by`: `{sort_by}` is unknown: use {known}"))
}

/// Sorts the results of a search, by default in descending order.
pub(crate) fn sort<T>(found: &mut [T], by: fn(&T, &T) -> Ordering, sort_order: Option<&str>) -> ApiResult<()> {
    let descending = is_descending(sort_order)?;
    found.sort_by(|a, b| if descending { by(b, a) } else { by(a, b) });
    Ok(())
}

/// Returns true if the `sort_order` of a search is descending, which is the default.
pub(crate) fn is_descending(sort_order: Option<&str>) -> ApiResult<bool> {
    match sort_order.map(str::to_ascii_lowercase).as_deref() {
        Some("asc") => Ok(false),
        None | Some("desc") => Ok(true),
        Some(other) => Err(ApiError::invalid(format!("`sort_order`: `{other}` is unknown: use `asc` or `desc`"))),
    }
}
