//! Detached subagents whose deadlines have passed.

use std::time::{Duration, SystemTime};

use hier_core::checkpoint::DueQuery;

use crate::site::{Site, on_each_store};

impl Site {
    /// Returns true if a subagent's thread is due this long from now.
    async fn has_due_subagent(&self, from_now: Duration) -> bool {
        let graphs = ["miner", "buyer", "trader"].map(String::from).to_vec();
        let query = DueQuery::new(SystemTime::now() + from_now, graphs, 10);
        let due = self.store.inbox().unwrap().due(query).await.unwrap();
        due.iter().any(|due| due.thread.starts_with("t/background/"))
    }

    /// Waits until no thread of a subagent is due this long from now. Fails if a run resumes one.
    async fn becomes_not_due(&self, from_now: Duration) {
        while self.has_due_subagent(from_now).await {
            let runs = self.runs_of_subagents().await;
            assert!(!runs.iter().any(|run| run.metadata.contains_key("woken")), "{runs:?}");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn worker_continues_a_subagent_whose_question_is_overdue() {
    on_each_store(async |site| {
        site.mine.gate.add_permits(100);
        site.turn("Buy.").await;
        let reported = async {
            loop {
                for run in site.runs_of_subagents().await {
                    let output = site.ended(&run).await.output;
                    if output.is_some_and(|output| output["values"]["status"] == "reported") {
                        return;
                    }
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), reported).await.expect("the default is the answer");
        assert_eq!(site.turn("And?").await[1], "`buyer-1` reported.\ndone");
    })
    .await;
}

#[tokio::test]
async fn deadline_of_a_subagent_that_has_failed_adds_no_run() {
    on_each_store(async |site| {
        site.turn("Trade.").await;
        site.mine.works(2).await;
        let run = site.only_run_of_subagent().await;
        // First `buy` asks, and then `dig` fails.
        site.mine.gate.add_permits(1);
        site.mine.works(1).await;
        site.mine.gate.close();
        let run = site.ended(&run).await;
        assert_eq!(run.output.unwrap()["values"]["status"], "failed");
        assert!(!site.has_due_subagent(Duration::from_hours(1000)).await);
        let failed = &site.turn("And?").await[1];
        assert!(failed.starts_with("`trader-1` failed"), "{failed}");
    })
    .await;
}

#[tokio::test]
async fn deadline_of_a_cancelled_subagent_is_postponed_by_a_day() {
    on_each_store(async |site| {
        site.turn("Buy.").await;
        site.mine.works(1).await;
        let run = site.only_run_of_subagent().await;
        // The subagent asks its question before it learns that it was cancelled.
        site.turn("Stop.").await;
        site.mine.gate.add_permits(1);
        let output = site.ended(&run).await.output.unwrap();
        assert_eq!(output["interrupts"][0]["value"], "How much?");
        site.becomes_not_due(Duration::from_hours(1)).await;
        assert!(!site.has_due_subagent(Duration::from_hours(23)).await);
        assert!(site.has_due_subagent(Duration::from_hours(24)).await);
        site.only_run_of_subagent().await;
    })
    .await;
}
