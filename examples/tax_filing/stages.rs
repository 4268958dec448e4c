//! The computations of the stages, without a model: reading, parsing, matching and adding up.

use std::collections::BTreeMap;
use std::sync::Arc;

use hier::Result;
use hier::agent::ConversationLabels;
use hier::prelude::*;

use crate::agents::{Desk, MatchTask, TaxCase};
use crate::artifact::{Artifact, Bank, Filing, Match, OpenPosition};
use crate::input::{self, Records};
use crate::matching::Puzzle;
use crate::tax;
use crate::tools::read_paper;

/// The input of a stage: the results of the earlier stages.
#[derive(View)]
#[view(of = TaxCase)]
pub(crate) struct Papers<'a> {
    artifact: &'a Artifact,
}

/// The result of a stage, and its report.
#[derive(View)]
#[view(of = TaxCase)]
pub(crate) struct Made {
    artifact: Artifact,
    current_agent_report: String,
}

/// The papers, and the labels of their texts.
#[derive(View)]
#[view(of = TaxCase)]
pub(crate) struct Fetched {
    artifact: Artifact,
    current_agent_report: String,
    trust_labels: ConversationLabels,
}

/// The position that the model is asked about.
#[derive(View)]
#[view(of = TaxCase)]
pub(crate) struct Asked {
    puzzle: Option<Arc<Puzzle>>,
}

/// A position with the model's answer.
#[derive(View)]
#[view(of = TaxCase)]
pub(crate) struct Answered<'a> {
    puzzle: &'a Option<Arc<Puzzle>>,
    current_agent_report: &'a String,
}

/// The match that the model has found.
#[derive(View)]
#[view(of = TaxCase)]
pub(crate) struct Kept {
    artifact: Artifact,
}

/// Reads the folder. Fails with all problems, so that the case continues here after they are fixed.
pub(crate) async fn fetch(run: &Run<Desk>) -> Result<Fetched> {
    let folder = run.context().folder.clone();
    // File access blocks the thread.
    let documents = tokio::task::spawn_blocking(move || input::read_folder(&folder)).await??;
    Ok(Fetched {
        current_agent_report: format!("{} documents, all readable", documents.len()),
        artifact: Artifact { documents: Some(documents.into()), ..Artifact::default() },
        // Prompts quote the papers, so the conversation has their labels, too.
        trust_labels: ConversationLabels::new(read_paper::TRUST.labels),
    })
}

/// Finds documents that are odd but not wrong.
pub(crate) async fn compare(papers: Papers<'_>) -> Result<Made> {
    let documents = papers.artifact.documents.as_deref().ok_or_else(|| missing("documents"))?;
    let records = input::parse(documents)?;
    let (name, year) = (&records.taxpayer.name, records.taxpayer.year);
    let mut remarks = Vec::new();
    for income in &records.incomes {
        if income.recipient != *name {
            remarks.push(format!("{}: it is about {}, not {name}", income.file, income.recipient));
        }
        if income.year != year {
            remarks.push(format!("{}: it is about {}, not {year}", income.file, income.year));
        }
    }
    let outside = records.positions.iter().filter(|position| position.date.year() != year);
    remarks.extend(outside.map(|position| {
        format!("{}:{}: {} is not in {year}", position.place.file, position.place.line, position.date)
    }));
    let mut texts = BTreeMap::new();
    for document in documents {
        if let Some(first) = texts.insert(document.text.clone(), &document.file) {
            remarks.push(format!("{}: it is a copy of {first}", document.file));
        }
    }
    let report = format!("{} remarks", remarks.len());
    Ok(made(Artifact { remarks: Some(remarks.into()), ..Artifact::default() }, report))
}

/// Turns the documents into numbers.
pub(crate) async fn extract(papers: Papers<'_>) -> Result<Made> {
    let documents = papers.artifact.documents.as_deref().ok_or_else(|| missing("documents"))?;
    let records = input::parse(documents)?;
    let Records { incomes, receipts, positions, .. } = &records;
    let report = format!("{} forms, {} receipts, {} positions", incomes.len(), receipts.len(), positions.len());
    Ok(made(Artifact { records: Some(Arc::new(records)), ..Artifact::default() }, report))
}

/// Finds the candidates of a position before the model is asked.
pub(crate) async fn find_candidates(state: &TaxCase) -> Result<Asked> {
    let task: MatchTask = state.base.args()?;
    let records = records(&state.artifact)?;
    let puzzle = Puzzle::of(task.position, records, &state.artifact.matches);
    Ok(Asked { puzzle: puzzle.map(Arc::new) })
}

/// Writes the model's decision. It runs as the exit hook of the matcher, so that only this match is stored. A stage of the
/// matcher would also store everything that the matcher has inherited.
pub(crate) async fn keep_match(answered: Answered<'_>) -> Option<Kept> {
    let puzzle = answered.puzzle.as_ref()?;
    let is = puzzle.decide(answered.current_agent_report);
    let matches = [(puzzle.position.number, is)].into_iter().collect();
    Some(Kept { artifact: Artifact { matches, ..Artifact::default() } })
}

/// Computes the return.
pub(crate) async fn calculate(papers: Papers<'_>) -> Result<Made> {
    let accounts = tax::accounts(records(papers.artifact)?, &papers.artifact.matches);
    let report = format!("{} lines, {} differences", accounts.lines.len(), accounts.differences.len());
    Ok(made(Artifact { accounts: Some(Arc::new(accounts)), ..Artifact::default() }, report))
}

/// Writes the return.
pub(crate) async fn report(papers: Papers<'_>) -> Result<Made> {
    let Artifact { documents, remarks, matches, accounts, .. } = papers.artifact;
    let (records, accounts) = (records(papers.artifact)?, accounts.as_ref().ok_or_else(|| missing("accounts"))?);
    let count = |wanted: fn(&Match) -> bool| matches.values().filter(|is| wanted(is)).count();
    let open = records.positions.iter().filter_map(|position| match matches.get(&position.number) {
        Some(Match::Open(why)) => Some(OpenPosition { position: position.clone(), why: why.clone() }),
        _ => None,
    });
    let filing = Filing {
        taxpayer: records.taxpayer.clone(),
        documents: documents.as_ref().map_or(0, |documents| documents.len()),
        lines: accounts.lines.clone(),
        bank: Bank {
            positions: records.positions.len(),
            with_document: count(|is| matches!(is, Match::Document(_))),
            explained: count(|is| matches!(is, Match::Explained(_))),
            open: open.collect(),
        },
        remarks: remarks.iter().flat_map(|remarks| remarks.iter().cloned()).collect(),
        differences: accounts.differences.clone(),
    };
    let report = format!("the return of {} for {} is ready", filing.taxpayer.name, filing.taxpayer.year);
    Ok(made(Artifact { filing: Some(Arc::new(filing)), ..Artifact::default() }, report))
}

fn made(artifact: Artifact, report: String) -> Made {
    Made { artifact, current_agent_report: report }
}

fn records(artifact: &Artifact) -> Result<&Records> {
    artifact.records.as_deref().ok_or_else(|| missing("records"))
}

/// The error if a model calls the stages in the wrong order. Retrying would not help.
fn missing(what: &str) -> NodeError {
    NodeError::permanent(format!("there are no {what} yet: an earlier stage was skipped"))
}
