//! The hierarchy of `tests/conformance/tax_filing.py`, agent by agent.

use hier_agents::TodoList;
use hier_agents::prelude::*;
use hier_core::state::Overwrite;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tax {
    #[state(flatten)]
    pub(crate) base: BaseState,
    /// The artifact that the stages pass on.
    pub(crate) artifact: String,
}

graph! {
    /// Five stages.
    pub(crate) TaxRoot<Tax> = TodoGraph {
        subagents: [
            EvidenceOrchestrator { merge_fields: [artifact] },
            ExtractionOrchestrator { merge_fields: [artifact] },
            MatchingOrchestrator { merge_fields: [artifact] },
            ReconciliationOrchestrator { merge_fields: [artifact] },
            ReportingOrchestrator { merge_fields: [artifact] },
        ],
    }
}

graph! {
    /// Evidence.
    EvidenceOrchestrator<Tax> = ReactGraph {
        report_into: artifact,
        subagents: [DocumentFetcher { merge_fields: [artifact] }, DocumentValidator { merge_fields: [artifact] }],
    }
}

graph! {
    /// Fetches.
    DocumentFetcher<Tax> = SimpleGraph { compute: fetch }
}

graph! {
    /// Validates.
    DocumentValidator<Tax> = ReactGraph { report_into: artifact }
}

graph! {
    /// Extraction.
    ExtractionOrchestrator<Tax> = ReactGraph {
        report_into: artifact,
        subagents: [OcrEngine { merge_fields: [artifact] }],
    }
}

graph! {
    /// Reads.
    OcrEngine<Tax> = SimpleGraph { compute: read }
}

graph! {
    /// Matches every bank position.
    MatchingOrchestrator<Tax> = TodoGraph {
        report_into: artifact,
        max_iterations: 1_000_000,
        on_entry: with_a_new_list,
        subagents: [PositionMatcher { merge_fields: [artifact] }],
    }
}

graph! {
    /// Matches one.
    PositionMatcher<Tax> = ReactGraph { report_into: artifact }
}

graph! {
    /// Reconciliation.
    ReconciliationOrchestrator<Tax> = ReactGraph {
        report_into: artifact,
        subagents: [TaxCalculator { merge_fields: [artifact] }],
    }
}

graph! {
    /// Calculates.
    TaxCalculator<Tax> = SimpleGraph { compute: calculate }
}

graph! {
    /// Reports.
    ReportingOrchestrator<Tax> = SimpleGraph { compute: file }
}

async fn with_a_new_list() -> TaxUpdate {
    Tax::update().todo_list(Overwrite(TodoList::new()))
}

async fn fetch() -> TaxUpdate {
    made("FETCHED".to_owned())
}

async fn read(state: &Tax) -> TaxUpdate {
    made(format!("EXTRACTION({})", state.artifact))
}

async fn calculate(state: &Tax) -> TaxUpdate {
    made(format!("RECONCILIATION({})", state.artifact))
}

async fn file(state: &Tax) -> TaxUpdate {
    made(format!("FILED({})", state.artifact)).is_finished(true)
}

fn made(artifact: String) -> TaxUpdate {
    Tax::update().current_agent_report(artifact.clone()).artifact(artifact)
}
