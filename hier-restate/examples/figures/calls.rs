//! Counts the entries of the journals of a run, so that hier and the handlers by hand are known to do the same calls.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Failed;
use crate::site::Site;

/// The numbers of journal entries of each kind, and of invocations, of these services.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls(BTreeMap<String, u64>);

impl Calls {
    /// Those that have come since.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (kind, count) in &before.0 {
            *self.0.entry(kind.clone()).or_default() -= count;
        }
        self.0.retain(|_, count| *count > 0);
        self
    }
}

impl std::fmt::Display for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, (kind, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} {kind}", if place > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl Site {
    /// Has the journals of these services kept after their ends, or not.
    pub(crate) async fn keep_journals(&self, services: &[&str], kept: bool) -> Result<(), Failed> {
        for service in services {
            let wanted = json!({ "journal_retention": if kept { "1h" } else { "0s" } });
            let sent = self.http.patch(format!("{}/services/{service}", self.admin)).json(&wanted).send().await?;
            sent.error_for_status()?;
        }
        Ok(())
    }

    /// Reads the journals of these services.
    pub(crate) async fn calls(&self, services: &[&str]) -> Result<Calls, Failed> {
        let names = services.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let ours = format!("SELECT id FROM sys_invocation WHERE target_service_name IN ({names})");
        let entries =
            format!("SELECT entry_type, COUNT(*) AS n FROM sys_journal WHERE id IN ({ours}) GROUP BY entry_type");
        let asked = || {
            let asked = self.http.post(format!("{}/query", self.admin)).header("accept", "application/json");
            asked.json(&json!({ "query": entries })).send()
        };
        let mut answer = asked().await?;
        // A server that has just begun does not have all of its partitions yet.
        for _ in 0..600 {
            if answer.status().is_success() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            answer = asked().await?;
        }
        let answer: Value = answer.error_for_status()?.json().await?;
        let rows = answer["rows"].as_array().ok_or("the server has answered without rows")?;
        let row = |row: &Value| Some((row["entry_type"].as_str()?.to_owned(), row["n"].as_u64()?));
        Ok(Calls(rows.iter().filter_map(row).collect()))
    }
}
