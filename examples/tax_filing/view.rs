//! The progress of the hierarchy on standard error: a bar for each agent in a terminal, lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use hier::agent::CallCounts;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::Value;

/// The agents as a tree.
const TREE: [(&str, &str); 10] = [
    ("evidence", "├─ evidence"),
    ("document_fetcher", "│  ├─ document_fetcher"),
    ("document_validator", "│  └─ document_validator"),
    ("extraction", "├─ extraction"),
    ("ocr_engine", "│  └─ ocr_engine"),
    ("matching", "├─ matching"),
    (MATCHER, "│  └─ position_matcher"),
    ("reconciliation", "├─ reconciliation"),
    ("tax_calculator", "│  └─ tax_calculator"),
    ("reporting", "└─ reporting"),
];

/// The agent that is called for each position.
const MATCHER: &str = "position_matcher";
/// The number of its calls between two lines.
const EVERY: u64 = 50;

/// Shows the progress of the agents.
pub(crate) struct View {
    shown: Shown,
    calls: BTreeMap<String, CallCounts>,
    positions: u64,
}

enum Shown {
    Nothing,
    Lines,
    /// One bar for each agent, in the order of the tree.
    Bars(Vec<ProgressBar>),
}

impl View {
    pub(crate) fn new(quiet: bool) -> Self {
        let shown = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Nothing,
            (false, false) => Shown::Lines,
            (false, true) => Shown::Bars(bars()),
        };
        Self { shown, calls: BTreeMap::new(), positions: 0 }
    }

    /// Returns true if it shows anything.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.shown, Shown::Nothing)
    }

    /// Sets the number of positions, which is the number of calls of the matcher.
    pub(crate) fn expect(&mut self, positions: usize) {
        self.positions = u64::try_from(positions).unwrap_or(u64::MAX);
    }

    /// Shows the number of calls of an agent.
    pub(crate) fn calls(&mut self, agent: &str, calls: CallCounts) {
        let old = self.calls.get(agent).copied().unwrap_or_default();
        // A subagent reports its counts again when it ends.
        if calls.scheduled <= old.scheduled && calls.finished <= old.finished {
            return;
        }
        self.calls.insert(agent.to_owned(), calls);
        match &self.shown {
            Shown::Nothing => {}
            Shown::Lines => self.line(agent, old, calls),
            Shown::Bars(bars) => self.bar(bars, agent, calls),
        }
    }

    /// Reads the update event of a node: its writes by node and channel.
    pub(crate) fn updated(&mut self, update: &Value) {
        let nodes = update.as_object().into_iter().flat_map(|nodes| nodes.values());
        // A node that writes one channel several times has a list of its writes.
        let writes = nodes.flat_map(|writes| writes.as_array().map_or(std::slice::from_ref(writes), Vec::as_slice));
        for writes in writes {
            if let Some(positions) = writes.pointer("/artifact/records/positions").and_then(Value::as_array) {
                self.expect(positions.len());
            }
            let progress = writes.get("progress").and_then(Value::as_object);
            for (agent, calls) in progress.into_iter().flatten() {
                if let Ok(calls) = serde_json::from_value(calls.clone()) {
                    self.calls(agent, calls);
                }
            }
        }
    }

    fn line(&self, agent: &str, old: CallCounts, new: CallCounts) {
        let indent = TREE
            .iter()
            .position(|(name, _)| *name == agent)
            .map_or("", |place| if TREE[place].1.starts_with('│') { "    " } else { "  " });
        if agent == MATCHER {
            let finished = new.finished;
            if finished > old.finished && (finished.is_multiple_of(EVERY) || finished == self.positions) {
                eprintln!("{indent}{agent} {finished} of {}", self.positions);
            }
        } else if new.finished > old.finished {
            eprintln!("{indent}{agent} is done");
        } else if new.scheduled > old.scheduled {
            eprintln!("{indent}{agent} is running");
        }
    }

    fn bar(&self, bars: &[ProgressBar], agent: &str, calls: CallCounts) {
        let Some(bar) = TREE.iter().position(|(name, _)| *name == agent).and_then(|place| bars.get(place)) else {
            return;
        };
        let expected = if agent == MATCHER { self.positions } else { 0 };
        bar.set_length(expected.max(calls.scheduled));
        bar.set_position(calls.finished);
        let state = if calls.finished < calls.scheduled { "running" } else { "" };
        bar.set_message(state);
    }

    /// Keeps the bars on the screen.
    pub(crate) fn end(&self) {
        if let Shown::Bars(bars) = &self.shown {
            bars.iter().for_each(ProgressBar::abandon);
        }
    }
}

fn bars() -> Vec<ProgressBar> {
    let all = MultiProgress::new();
    let style = ProgressStyle::with_template("{prefix:28} {bar:30} {pos:>4}/{len:<4} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let head =
        all.add(ProgressBar::new(0).with_style(ProgressStyle::with_template("{prefix}").unwrap_or(style.clone())));
    head.set_prefix("tax_desk");
    head.abandon();
    let bar = |(_, prefix): (&str, &'static str)| {
        let bar = all.add(ProgressBar::new(1).with_style(style.clone()).with_prefix(prefix));
        bar.tick();
        bar
    };
    TREE.into_iter().map(bar).collect()
}
