//! The tools of the agents, with their labels.

use hier::prelude::*;

use crate::agents::TaxCase;

/// Reads a paper of the case: a form, a receipt or a bank statement.
// The papers belong to the taxpayer. Banks, employers and shops wrote them, and bank statements quote the payers.
#[tool(private, untrusted)]
pub(crate) async fn read_paper(
    /// The name of the file.
    file: String,
    case: &TaxCase,
) -> String {
    let mut papers = case.artifact.documents.iter().flat_map(|documents| documents.iter());
    match papers.find(|paper| *paper.file == *file) {
        Some(paper) => paper.text.to_string(),
        None => format!("there is no paper `{file}`"),
    }
}
