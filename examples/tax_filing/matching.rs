//! The candidates for a position of the bank statement, and the decision.

use std::fmt::Write;
use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use crate::artifact::Match;
use crate::input::{Position, Receipt, Records};

/// The bank books a purchase within this many days.
const BOOKED_WITHIN: i64 = 5;

/// A position and its candidates: the task of one `position_matcher`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Puzzle {
    pub(crate) position: Position,
    pub(crate) candidates: Vec<Candidate>,
}

/// A possible match of a position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Candidate {
    pub(crate) is: Match,
    /// The reason.
    pub(crate) because: String,
}

impl Puzzle {
    /// Returns the position with this number and its candidates, the likeliest first.
    pub(crate) fn of(number: u32, records: &Records, matches: &OrdMap<u32, Match>) -> Option<Self> {
        let position = records.positions.get(usize::try_from(number).ok()?.checked_sub(1)?)?.clone();
        let text = position.text.to_uppercase();
        let names = |name: &str| text.contains(&name.to_uppercase());
        let is_free = |file: &Arc<str>| {
            let taken = Match::Document(file.clone());
            !matches.iter().any(|(other, is)| *other != number && *is == taken)
        };
        let document = |file: &Arc<str>, because: String| Candidate { is: Match::Document(file.clone()), because };
        let mut candidates = Vec::new();
        if position.amount.is_credit() {
            let incomes = records.incomes.iter().filter(|income| names(&income.payer));
            candidates.extend(incomes.map(|income| document(&income.file, format!("payer {}", income.payer))));
        } else {
            let paid = -position.amount;
            let vouchers = records.vouchers.iter().filter(|voucher| voucher.amount.amount == paid);
            let vouchers = vouchers.filter(|voucher| names(&voucher.payee) && is_free(&voucher.file));
            candidates.extend(vouchers.map(|voucher| document(&voucher.file, format!("payee {}", voucher.payee))));
            let contracts = records.contracts.iter().filter(|contract| contract.monthly.amount == paid);
            let contracts = contracts.filter(|contract| names(&contract.vendor));
            candidates.extend(contracts.map(|contract| document(&contract.file, format!("each month {paid}"))));
            let bought = |receipt: &&Receipt| {
                let days = position.date.days_after(receipt.date);
                receipt.total.amount == paid && (0..=BOOKED_WITHIN).contains(&days) && is_free(&receipt.file)
            };
            let receipts = records.receipts.iter().filter(bought).filter(|receipt| names(&receipt.vendor));
            candidates.extend(receipts.map(|receipt| document(&receipt.file, format!("{} of {}", paid, receipt.date))));
        }
        let rules = records.rules.iter().filter(|rule| text.contains(&rule.word));
        candidates.extend(rules.map(|rule| Candidate {
            is: Match::Explained(rule.reason.clone()),
            because: format!("{}:{}", rule.place.file, rule.place.line),
        }));
        Some(Self { position, candidates })
    }

    /// Returns the prompt of the model.
    pub(crate) fn prompt(&self) -> String {
        let Position { number, date, text, amount, .. } = &self.position;
        let mut prompt = format!(
            "You match one position of a bank statement.\n\nPosition {number}: {date}, {text}, {amount}\n\nCandidates:\n"
        );
        for Candidate { is, because } in &self.candidates {
            // Writing to a `String` does not fail.
            let _ = writeln!(prompt, "- {} ({because})", says(is));
        }
        prompt.push_str(
            "\nReport the candidate that fits, word for word without the parenthesis, or `open: ` and why none of them does.",
        );
        prompt
    }

    /// Returns the first candidate that a report names. Without one, a person must look at the position.
    pub(crate) fn decide(&self, report: &str) -> Match {
        let named = self.candidates.iter().find(|candidate| report.contains(&says(&candidate.is)));
        let open = || Match::Open(report.trim().trim_start_matches("open:").trim().to_owned());
        named.map_or_else(open, |candidate| candidate.is.clone())
    }
}

/// Formats a match for the prompt and the report.
fn says(is: &Match) -> String {
    match is {
        Match::Document(file) => format!("document {file}"),
        Match::Explained(reason) => format!("no document: {reason}"),
        Match::Open(why) => format!("open: {why}"),
    }
}
