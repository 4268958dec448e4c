//! The hierarchy: the agents, their subagents, and the policies between them.

use std::path::PathBuf;
use std::sync::Arc;

use hier::agent::{TodoList, schemars};
use hier::prelude::*;
use hier::state::Overwrite;

use crate::artifact::Artifact;
use crate::matching::Puzzle;
use crate::stages::{calculate, compare, extract, fetch, find_candidates, keep_match, report};
use crate::tools::read_paper;

/// The state of every agent.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TaxCase {
    #[state(flatten)]
    pub(crate) base: BaseState,
    /// The artifact that the stages pass on.
    #[reducer(with = Artifact::merge)]
    #[channel(delta)]
    pub(crate) artifact: Artifact,
    /// The position of a `position_matcher`. It stays with that agent.
    pub(crate) puzzle: Option<Arc<Puzzle>>,
}

/// The context of the agents.
pub(crate) struct Desk {
    pub(crate) base: BaseContext,
    /// The folder with the papers.
    pub(crate) folder: PathBuf,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    /// Files a tax return from a folder of papers.
    pub(crate) TaxDesk<TaxCase, Desk> = TodoGraph {
        system: "You run a tax desk. Its stages, in this order: evidence, extraction, matching, reconciliation, \
                 reporting. Put them on your list, call each, and finish with the result.",
        max_iterations: 100,
        subagents: [
            Evidence { merge_fields: [artifact] },
            Extraction { merge_fields: [artifact] },
            Matching { merge_fields: [artifact] },
            Reconciliation { merge_fields: [artifact] },
            Reporting { merge_fields: [artifact] },
        ],
        todo_check: is_filed,
        todo_refusal: "The return is not ready: call the stages that are open, and complete their items.",
    }
}

/// The desk has the labels of the papers, since its subagents read them. It sends nothing.
const _: () = {
    let labels = TaxDesk::TRUST.labels();
    assert!(labels.is_private() && labels.is_untrusted() && !labels.sends());
};

graph! {
    /// Collects the papers and checks them.
    pub(crate) Evidence<TaxCase, Desk> = ReactGraph {
        system: "You collect the papers of a case: fetch them, have them validated, and report.",
        subagents: [DocumentFetcher { merge_fields: [artifact] }, DocumentValidator { merge_fields: [artifact] }],
    }
}

graph! {
    /// Reads the folder.
    pub(crate) DocumentFetcher<TaxCase, Desk> = SimpleGraph { compute: fetch }
}

graph! {
    /// Judges what is odd about the papers.
    pub(crate) DocumentValidator<TaxCase, Desk> = ReactGraph {
        system: |case: &TaxCase| format!("You validate papers. Remarks: {:?}. Report your judgement.", case.artifact.remarks),
        tools: [read_paper],
        front: [Compare],
    }
}

graph! {
    Compare<TaxCase, Desk> = SimpleGraph { compute: compare }
}

graph! {
    /// Turns the papers into numbers.
    pub(crate) Extraction<TaxCase, Desk> = ReactGraph {
        system: "You extract the numbers of the papers: call the engine, and report.",
        subagents: [OcrEngine { merge_fields: [artifact] }],
    }
}

graph! {
    /// Reads forms, receipts and bank statements.
    pub(crate) OcrEngine<TaxCase, Desk> = SimpleGraph { compute: extract }
}

graph! {
    /// Matches every position of the bank statement.
    pub(crate) Matching<TaxCase, Desk> = TodoGraph {
        system: |case: &TaxCase| format!(
            "You match the {} positions of a bank statement. Put `position 1` and so on on your list; call position_matcher \
             for each, and complete its item. Then report.",
            case.artifact.positions()
        ),
        max_iterations: 100_000,
        on_entry: with_a_new_list,
        subagents: [PositionMatcher { merge_fields: [artifact] }],
        todo_check: all_positions_are_matched,
        todo_refusal: "There are positions that are not matched.",
    }
}

/// The arguments of a `position_matcher`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct MatchTask {
    /// The number of the position, from 1.
    pub(crate) position: u32,
}

graph! {
    /// Identifies one position of the bank statement.
    pub(crate) PositionMatcher<TaxCase, Desk> = ReactGraph {
        args: MatchTask,
        system: puzzle_in_words,
        max_iterations: 5,
        tools: [read_paper],
        front: [FindCandidates],
        on_exit: keep_match,
    }
}

graph! {
    FindCandidates<TaxCase, Desk> = SimpleGraph { compute: find_candidates }
}

graph! {
    /// Brings papers and bank together.
    pub(crate) Reconciliation<TaxCase, Desk> = ReactGraph {
        system: "You reconcile papers and bank: call the calculator, and report.",
        subagents: [TaxCalculator { merge_fields: [artifact] }],
    }
}

graph! {
    /// Computes the numbers of the return.
    pub(crate) TaxCalculator<TaxCase, Desk> = SimpleGraph { compute: calculate }
}

graph! {
    /// Makes the return.
    pub(crate) Reporting<TaxCase, Desk> = SimpleGraph { compute: report }
}

/// Starts with an empty to-do list instead of the root's.
async fn with_a_new_list() -> TaxCaseUpdate {
    TaxCase::update().todo_list(Overwrite(TodoList::new()))
}

fn is_filed(case: &TaxCase) -> bool {
    case.artifact.filing.is_some() && case.base.todo_list.is_done()
}

fn all_positions_are_matched(case: &TaxCase) -> bool {
    case.artifact.matches.len() >= case.artifact.positions() && case.base.todo_list.open() == 0
}

fn puzzle_in_words(case: &TaxCase) -> String {
    let unknown = || "There is no position with this number. Report that.".to_owned();
    case.puzzle.as_ref().map_or_else(unknown, |puzzle| puzzle.prompt())
}
