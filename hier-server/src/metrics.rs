use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use axum::http::Method;
use serde_json::{Value, json};

/// The methods that are counted by their names.
const METHODS: [Method; 9] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::HEAD,
    Method::OPTIONS,
    Method::CONNECT,
    Method::TRACE,
];

/// Number of responses by method, route and status.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<(String, String, u16), u64>>);

impl Metrics {
    /// Counts a response. All unknown paths count as one route, and all unknown methods as one method. Otherwise clients
    /// could fill the memory with names of methods.
    pub(crate) fn count(&self, method: &Method, route: &str, status: u16) {
        let method = if METHODS.contains(method) { method.as_str() } else { "(other)" };
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
