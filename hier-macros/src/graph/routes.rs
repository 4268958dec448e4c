//! Routes in the model: a route with the routes nested in it is one edge, whose arms are those of all of them.

use std::borrow::Cow;

use hier_spec::{ArmSpec, ArmTarget, EdgeSpec, Site, Source, Target};
use proc_macro2::Span;
use syn::spanned::Spanned;

use super::ast::{Arm, ArmBody, Decision, Function, Shape};
use super::model::{Model, Names};
use super::text;
use crate::diag::Errors;

/// Adds a route from these sources, of which there may be one only.
pub(super) fn route(
    model: &mut Model,
    from: Option<&[(Source, Span)]>,
    decision: Decision,
    names: &mut Names<'_>,
    errors: &mut Errors,
) {
    let mut arms = Vec::new();
    collect(model, &decision, "", names, errors, &mut arms);
    model.holes |= broken(&decision);
    let Some(from) = from else { return };
    let [(from, _)] = from else {
        let word = decision.shape.word();
        let message = format!(
            "{} cannot follow a list: join the list in a node of its own, and write `that_node >> {word} …` in \
             a line of its own",
            decision.shape.one()
        );
        errors.at(decision.span, message);
        model.holes = true;
        return;
    };
    let edge = model.spec.edges.len();
    model.put(Site::Edge(edge), decision.function.span());
    for (number, (_, arm, targets)) in arms.iter().enumerate() {
        model.put(Site::Arm(edge, number), *arm);
        for (position, (_, span)) in targets.iter().enumerate() {
            model.put(Site::ArmTarget(edge, number, position), *span);
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

/// An arm: its name, its place, its targets with theirs.
type Collected = (String, Span, Vec<(ArmTarget, Span)>);

/// The arms of a route and of those nested in it. `outer` is the label of the arm in which it stands.
fn collect(
    model: &mut Model,
    decision: &Decision,
    outer: &str,
    names: &mut Names<'_>,
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
                    Shape::For => format!("{label}, "),
                    Shape::Match | Shape::If => format!("{label}, {function}: "),
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
                            errors.push(&goal.name, "END cannot be sent anything: write `END` alone");
                        }
                        (None, target) => {
                            // A `for` that sends nothing is reported already.
                            if decision.shape == Shape::For {
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
    // The whole is checked with the graph's other rules; a part that is nested in it is checked here.
    if !outer.is_empty() && !model.holes {
        same_arms(decision, &arms[first..], errors);
    }
}

/// Refuses a nested route that chooses nothing.
fn same_arms(decision: &Decision, arms: &[Collected], errors: &mut Errors) {
    let targets = |arm: &Collected| arm.2.iter().map(|(target, _)| *target).collect::<std::collections::BTreeSet<_>>();
    if let [first, rest @ ..] = arms
        && !rest.is_empty()
        && rest.iter().all(|arm| targets(arm) == targets(first))
    {
        let function = route_label(&decision.function);
        let message =
            format!("all arms of `{function}` lead to the same place, so it chooses nothing: write the target alone");
        errors.push(&decision.function, message);
    }
}

fn arm_label(decision: &Decision, number: usize, arm: &Arm) -> String {
    match (decision.shape, &arm.pattern, &arm.guard) {
        (Shape::Match, Some(pattern), Some(guard)) => format!("{} if {}", text::compact(pattern), text::compact(guard)),
        (Shape::Match, Some(pattern), None) => text::compact(pattern),
        (Shape::For, ..) => route_label(&decision.function),
        (Shape::If, ..) if number == 0 => "true".to_owned(),
        _ => "false".to_owned(),
    }
}

/// The name under which a route appears: that of its function, or the expression.
fn route_label(function: &Function) -> String {
    match function {
        Function::Path(path) => match path.segments.last() {
            Some(last) => syn::ext::IdentExt::unraw(&last.ident).to_string(),
            None => text::compact(path),
        },
        Function::Closure(_) => "closure".to_owned(),
        Function::Expression(expression) => text::compact(expression),
    }
}

/// The name under which a route of this source appears: a second closure or expression of that name gets a number.
fn free_label(model: &Model, from: Source, function: &Function) -> String {
    let label = route_label(function);
    let taken = |label: &str| {
        model.spec.edges.iter().any(
            |edge| matches!(edge, EdgeSpec::Route { from: other, label: known, .. } if *other == from && *known == label),
        )
    };
    match function {
        Function::Closure(_) | Function::Expression(_) if taken(&label) => {
            let numbered = (2..).map(|number: usize| format!("{label}_{number}"));
            numbered.into_iter().find(|label| !taken(label)).unwrap_or(label)
        }
        _ => label,
    }
}

/// Whether an arm of it is missing.
fn broken(decision: &Decision) -> bool {
    decision.broken || decision.arms.iter().any(|arm| matches!(&arm.body, ArmBody::Decide(inner) if broken(inner)))
}
