//! The rules of a graph's shape, reported at the user's tokens. The rules themselves are `hier_spec::check`.

use hier_spec::{Finding, Rule, Site};
use syn::Ident;
use syn::ext::IdentExt;

use super::model::Model;
use crate::diag::Errors;

/// Reports every breach of a rule; returns the channels that have two writers
/// in one step, each at the second: right only if they have a reducer, which the compiler knows.
pub(super) fn check(model: &Model, errors: &mut Errors) -> Vec<Ident> {
    let mut doubtful = Vec::new();
    for finding in hier_spec::check(&model.spec) {
        match finding.rule {
            Rule::TwoWriters => doubtful.extend(writers(model, &finding)),
            // With an edge missing, every rule about ways would report what follows from that mistake.
            rule if model.holes && rule != Rule::DoubledEdge => {}
            _ => report(model, &finding, errors),
        }
    }
    doubtful
}

/// The whole message at the first place, its first words at the others.
fn report(model: &Model, finding: &Finding, errors: &mut Errors) {
    let short = finding.message.split(": ").next().unwrap_or_default();
    for (number, site) in finding.sites.iter().enumerate() {
        let span = model.span(*site);
        if number == 0 {
            errors.at(span, &finding.message);
        } else {
            errors.at(span, format!("… also here: {short}"));
        }
    }
}

fn writers(model: &Model, finding: &Finding) -> Option<Ident> {
    let Site::Write(node, position) = *finding.sites.first()? else { return None };
    let name = model.spec.nodes[node].writes.get(position)?;
    let channel = model.nodes[node].options.writes.found.iter().find(|channel| channel.unraw() == **name)?;
    (!model.holes).then(|| channel.clone())
}
