//! Routes in the model. A route and the routes nested in it are one edge with all their arms.

use std::borrow::Cow;

use hier_spec::{ArmSpec, ArmTarget, EdgeSpec, Source, SpecSite, Target};
use proc_macro2::Span;
use syn::spanned::Spanned;

use super::super::ast::{ArmBody, RouteArm, RouteDecl, RouteKind, Selector};
use super::super::text;
use super::{GraphModel, NameScope};
use crate::diag::Errors;

/// Adds a route from its source. Reports an error if there are several sources.
pub(super) fn route(
    model: &mut GraphModel,
    from: Option<&[(Source, Span)]>,
    decision: RouteDecl,
    names: &mut NameScope<'_>,
    errors: &mut Errors,
) {
    let mut arms = Vec::new();
    collect(model, &decision, "", names, errors, &mut arms);
    model.holes |= broken(&decision);
    let Some(from) = from else { return };
    let [(from, _)] = from else {
        let word = decision.shape.word();
        let message = format!(
            "{} cannot follow a list: join the list in a node, then write `that_node >> {word} …` on a separate line",
            decision.shape.with_article()
        );
        errors.at(decision.span, message);
        model.holes = true;
        return;
    };
    let edge = model.spec.edges.len();
    model.put(SpecSite::Edge(edge), decision.function.span());
    for (number, (_, arm, targets)) in arms.iter().enumerate() {
        model.put(SpecSite::Arm(edge, number), *arm);
        for (position, (_, span)) in targets.iter().enumerate() {
            model.put(SpecSite::ArmTarget(edge, number, position), *span);
        }
    }
    let label = free_label(model, *from, &decision.function);
    let arms = arms.into_iter().map(|(label, _, targets)| ArmSpec {
        label: Cow::Owned(label),
        to: targets.into_iter().map(|(target, _)| target).collect(),
    });
    let arms = Cow::Owned(arms.collect());
    model.spec.edges.to_mut().push(EdgeSpec::Route { from: *from, label: Cow::Owned(label), arms });
    model.routes.push(decision);
}

type Collected = (String, Span, Vec<(ArmTarget, Span)>);

/// Collects the arms of a route and of its nested routes. `outer` is the label of the enclosing arm.
fn collect(
    model: &mut GraphModel,
    decision: &RouteDecl,
    outer: &str,
    names: &mut NameScope<'_>,
    errors: &mut Errors,
    arms: &mut Vec<Collected>,
) {
    let first = arms.len();
    for (number, arm) in decision.arms.iter().enumerate() {
        let label = format!("{outer}{}", arm_label(decision, number, arm));
        match &arm.body {
            ArmBody::Decide(inner) => {
                let function = route_label(&inner.function);
                let outer = match inner.shape {
                    RouteKind::For => format!("{label}, "),
                    RouteKind::Match | RouteKind::If => format!("{label}, {function}: "),
                };
                collect(model, inner, &outer, names, errors, arms);
            }
            ArmBody::Go(goals) => {
                let mut targets = Vec::new();
                for goal in goals {
                    let Some(target) = model.target(&goal.name, names, errors) else { continue };
                    let span = goal.name.span();
                    match (&goal.item, target) {
                        (Some(_), Target::Node(node)) => targets.push((ArmTarget::Send(node), span)),
                        (Some(_), Target::End) => {
                            errors.push(&goal.name, "END takes no item: write `END` alone");
                        }
                        (None, target) => {
                            // The parser has reported a `for` without an item.
                            if decision.shape == RouteKind::For {
                                model.holes = true;
                            } else {
                                model.reached(target, span);
                            }
                            targets.push((ArmTarget::Go(target), span));
                        }
                    }
                }
                let place = arm.pattern.as_ref().map_or(decision.span, Spanned::span);
                arms.push((label, place, targets));
            }
        }
    }
    // The rules of the graph check the outermost route. This code checks the nested routes.
    if !outer.is_empty() && !model.holes {
        same_arms(decision, &arms[first..], errors);
    }
}

/// Rejects a nested route whose arms are equal.
fn same_arms(decision: &RouteDecl, arms: &[Collected], errors: &mut Errors) {
    let targets = |arm: &Collected| arm.2.iter().map(|(target, _)| *target).collect::<std::collections::BTreeSet<_>>();
    if let [first, rest @ ..] = arms
        && !rest.is_empty()
        && rest.iter().all(|arm| targets(arm) == targets(first))
    {
        let function = route_label(&decision.function);
        let message = format!("all arms of `{function}` lead to the same place: write the target alone");
        errors.push(&decision.function, message);
    }
}

fn arm_label(decision: &RouteDecl, number: usize, arm: &RouteArm) -> String {
    match (decision.shape, &arm.pattern, &arm.guard) {
        (RouteKind::Match, Some(pattern), Some(guard)) => {
            format!("{} if {}", text::compact(pattern), text::compact(guard))
        }
        (RouteKind::Match, Some(pattern), None) => text::compact(pattern),
        (RouteKind::For, ..) => route_label(&decision.function),
        (RouteKind::If, ..) if number == 0 => "true".to_owned(),
        _ => "false".to_owned(),
    }
}

fn route_label(function: &Selector) -> String {
    match function {
        Selector::Path(path) => match path.segments.last() {
            Some(last) => syn::ext::IdentExt::unraw(&last.ident).to_string(),
            None => text::compact(path),
        },
        Selector::Closure(_) => "closure".to_owned(),
        Selector::Expression(expression) => text::compact(expression),
    }
}

/// The route's label. A second closure or expression with the same label and source gets a number.
fn free_label(model: &GraphModel, from: Source, function: &Selector) -> String {
    let label = route_label(function);
    let taken = |label: &str| {
        model.spec.edges.iter().any(
            |edge| matches!(edge, EdgeSpec::Route { from: other, label: known, .. } if *other == from && *known == label),
        )
    };
    match function {
        Selector::Closure(_) | Selector::Expression(_) if taken(&label) => {
            let numbered = (2..).map(|number: usize| format!("{label}_{number}"));
            numbered.into_iter().find(|label| !taken(label)).unwrap_or(label)
        }
        _ => label,
    }
}

fn broken(decision: &RouteDecl) -> bool {
    decision.broken || decision.arms.iter().any(|arm| matches!(&arm.body, ArmBody::Decide(inner) if broken(inner)))
}
