use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// Number of responses by method, route and status.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<(String, String, u16), u64>>);

impl Metrics {
    /// Counts a response. All unknown paths count as one route.
    pub(crate) fn count(&self, method: &str, route: &str, status: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((method.to_owned(), route.to_owned(), status)).or_default() += 1;
    }

    fn each<T>(&self, form: impl Fn(&str, &str, u16, u64) -> T) -> Vec<T> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|((method, route, status), count)| form(method, route, *status, *count)).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let rows = self.each(
            |method, path, status, count| json!({ "method": method, "path": path, "status": status, "count": count }),
        );
        json!({ "http_requests_total": rows })
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::from(
            "# HELP http_requests_total Requests by method, route and status.\n# TYPE http_requests_total counter\n",
        );
        for line in self.each(|method, path, status, count| {
            format!("http_requests_total{{method=\"{method}\",path=\"{path}\",status=\"{status}\"}} {count}")
        }) {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}
