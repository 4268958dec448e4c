//! The rules of a graph's shape, reported at the user's tokens. The rules themselves are `hier_spec::check`.

use hier_spec::{Finding, Rule, Site};
use syn::Ident;
use syn::ext::IdentExt;

use super::model::Model;
use crate::diag::Errors;

/// Reports every breach of a rule. Returns the channels that have two writers in one step, at each of them: right only if
/// they have a reducer, which the compiler knows.
pub(super) fn check(model: &Model, errors: &mut Errors) -> Vec<Ident> {
    let mut doubtful = Vec::new();
    let mut findings = hier_spec::check(&model.spec);
    // With an edge missing, every rule about ways would report what follows from that mistake.
    findings.retain(|finding| !model.holes || !finding.rule.is_about_ways());
    let first: Vec<Site> = findings.iter().filter_map(|finding| finding.sites.first().copied()).collect();
    for finding in &findings {
        if finding.rule == Rule::TwoWriters {
            doubtful.extend(finding.sites.iter().filter_map(|site| writer(model, *site)));
        } else {
            report(model, finding, &first, errors);
        }
    }
    doubtful
}

/// The whole message at the first place; its first words at the others, but for those with a message of their own.
fn report(model: &Model, finding: &Finding, first: &[Site], errors: &mut Errors) {
    let Some((place, others)) = finding.sites.split_first() else { return };
    errors.at(model.span(*place), &finding.message);
    let short = finding.message.split(": ").next().unwrap_or_default();
    for site in others.iter().filter(|site| !first.contains(site)) {
        errors.at(model.span(*site), format!("… also here: {short}"));
    }
}

/// The channel where a node says that it writes it.
fn writer(model: &Model, site: Site) -> Option<Ident> {
    let Site::Write(node, position) = site else { return None };
    let name = model.spec.nodes[node].writes.get(position)?;
    model.nodes[node].options.writes.found.iter().find(|channel| channel.unraw() == **name).cloned()
}
