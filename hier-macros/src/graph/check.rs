//! Reports violations of the rules of `hier_spec::check` at the user's tokens.

use hier_spec::{Finding, ShapeRule, SpecSite};
use syn::Ident;
use syn::ext::IdentExt;

use super::model::GraphModel;
use crate::diag::Errors;

/// Reports each violation. Returns the mentions of channels that two nodes write in one superstep: only the compiler
/// knows whether they have a reducer.
pub(super) fn check(model: &GraphModel, errors: &mut Errors) -> Vec<Ident> {
    let mut doubtful = Vec::new();
    let mut findings = hier_spec::check(&model.spec);
    // After a missing edge, every rule about paths would report its consequences.
    findings.retain(|finding| !model.holes || !finding.rule.is_about_paths());
    let first: Vec<SpecSite> = findings.iter().filter_map(|finding| finding.sites.first().copied()).collect();
    for finding in &findings {
        if finding.rule == ShapeRule::TwoWriters {
            doubtful.extend(finding.sites.iter().filter_map(|site| writer(model, *site)));
        } else {
            report(model, finding, &first, errors);
        }
    }
    doubtful
}

/// Reports the whole message at the first site of a finding. Reports the first clause of the message at the other
/// sites, except sites that are the first site of a finding.
fn report(model: &GraphModel, finding: &Finding, first: &[SpecSite], errors: &mut Errors) {
    let Some((place, others)) = finding.sites.split_first() else { return };
    errors.at(model.span(*place), &finding.message);
    let short = finding.message.split(": ").next().unwrap_or_default();
    for site in others.iter().filter(|site| !first.contains(site)) {
        errors.at(model.span(*site), format!("… also here: {short}"));
    }
}

/// Returns the mention of the channel in `writes: […]` of a node.
fn writer(model: &GraphModel, site: SpecSite) -> Option<Ident> {
    let SpecSite::Write(node, position) = site else { return None };
    let name = model.spec.nodes[node].writes.get(position)?;
    model.nodes[node].options.writes.found.iter().find(|channel| channel.unraw() == **name).cloned()
}
