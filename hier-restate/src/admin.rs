use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::client::{error_text, read};
use crate::error::Error;
use crate::stored::META;

/// Registers a worker at a Restate server. `admin` is the URL of the server's admin API. `worker` is the URL at which
/// the server reaches the worker.
///
/// To deploy a new version of the program, register its workers at a separate URL. Restate then sends all new
/// invocations to these workers.
pub async fn register(admin: &str, worker: &str) -> Result<(), Error> {
    let place = format!("{}/deployments", admin.trim_end_matches('/'));
    let request = json!({ "uri": worker, "force": true, "breaking": true });
    let sent = reqwest::Client::new().post(&place).json(&request);
    asked(sent, place).await.map(drop)
}

/// Returns the ids of the threads that Restate stores for a graph, sorted. Returns at most `limit` ids. If `after` is
/// an id, returns only greater ids. If it is `None`, starts with the smallest id.
///
/// The query reads the state of all threads. Use this function for tools and maintenance, and not in the handler of a
/// request.
pub async fn threads(admin: &str, graph: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, Error> {
    let place = format!("{}/query", admin.trim_end_matches('/'));
    let text = |value: &str| format!("'{}'", value.replace('\'', "''"));
    let behind = after.map(|after| format!(" AND service_key > {}", text(after))).unwrap_or_default();
    let query = format!(
        "SELECT service_key FROM state WHERE service_name = {} AND key = {}{behind} ORDER BY service_key LIMIT {limit}",
        text(graph),
        text(META)
    );
    let sent = reqwest::Client::new().post(&place).header("accept", "application/json");
    let answer = asked(sent.json(&json!({ "query": query })), place.clone()).await?;
    let unreadable = |reason: &str| Error::Unreadable { place: place.clone(), reason: reason.to_owned() };
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| unreadable(&error.to_string()))?;
    let rows = answer["rows"].as_array().ok_or_else(|| unreadable("the response has no rows"))?;
    let id = |row: &Value| {
        row["service_key"].as_str().map(str::to_owned).ok_or_else(|| unreadable("a row of the response has no key"))
    };
    rows.iter().map(id).collect()
}

async fn asked(request: RequestBuilder, place: String) -> Result<Vec<u8>, Error> {
    match read(request).await {
        Ok((status, said)) if status.is_success() => Ok(said),
        Ok((status, said)) => {
            Err(Error::Restate { place, reason: error_text(status, &String::from_utf8_lossy(&said)) })
        }
        Err(reason) => Err(Error::Restate { place, reason }),
    }
}
