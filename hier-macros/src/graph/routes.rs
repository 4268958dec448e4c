//! Routes in the model: a route with the routes nested in it is one edge, whose arms are those of all of them.

use std::borrow::Cow;

use hier_spec::{ArmSpec, ArmTarget, EdgeSpec, Site, Source, Target};
use proc_macro2::Span;
use syn::spanned::Spanned;

use super::ast::{Arm, ArmBody, Decision, Function, Shape};
use super::model::{Model, Names};
use super::text;
use crate::diag::Errors;
use crate::symbol;

/// Adds a route from these sources, of which there may be one only.
pub(super) fn route(
    model: &mut Model,
    from: Option<&[(Source, Span)]>,
    decision: Decision,
    names: &Names<'_>,
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
    doubled(model, *from, &decision, errors);
    let edge = model.spec.edges.len();
    model.put(Site::Edge(edge), decision.function.span());
    for (number, (_, targets)) in arms.iter().enumerate() {
        for (position, (_, span)) in targets.iter().enumerate() {
            model.put(Site::ArmTarget(edge, number, position), *span);
        }
    }
    let arms = arms.into_iter().map(|(label, targets)| ArmSpec {
        label: Cow::Owned(label),
        to: targets.into_iter().map(|(target, _)| target).collect(),
    });
    let arms = Cow::Owned(arms.collect());
    model.spec.edges.to_mut().push(EdgeSpec::Route {
        from: *from,
        label: Cow::Owned(route_label(&decision.function)),
        arms,
    });
    model.routes.push(decision);
}

/// An arm with the places of its targets.
type Collected = (String, Vec<(ArmTarget, Span)>);

/// The arms of a route and of those nested in it. `outer` is the label of the arm in which it stands.
fn collect(
    model: &mut Model,
    decision: &Decision,
    outer: &str,
    names: &Names<'_>,
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
                            if decision.shape != Shape::For {
                                model.reached(target, span);
                            }
                            targets.push((ArmTarget::Go(target), span));
                        }
                    }
                }
                arms.push((label, targets));
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
    let targets = |arm: &Collected| arm.1.iter().map(|(target, _)| *target).collect::<std::collections::BTreeSet<_>>();
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

/// The name under which a route appears: that of its function.
fn route_label(function: &Function) -> String {
    match function {
        Function::Path(path) => match path.segments.last() {
            Some(last) => syn::ext::IdentExt::unraw(&last.ident).to_string(),
            None => text::compact(path),
        },
        Function::Closure(_) => "closure".to_owned(),
    }
}

/// Refuses a second route by the same function from the same source.
fn doubled(model: &Model, from: Source, decision: &Decision, errors: &mut Errors) {
    let Function::Path(path) = &decision.function else { return };
    let edges = model.spec.edges.iter().filter_map(|edge| match edge {
        EdgeSpec::Route { from, .. } => Some(*from),
        _ => None,
    });
    let same = edges.zip(&model.routes).find(|(other, route)| {
        *other == from
            && route.shape == decision.shape
            && matches!(&route.function, Function::Path(other) if other == path)
    });
    if let Some((_, first)) = same {
        let source = match from {
            Source::Start => symbol::START,
            Source::Node(node) => &model.spec.nodes[node].name,
        };
        let name = text::compact(path);
        errors.push(path, format!("`{source}` is routed by `{name}` twice: remove one, or make both one route"));
        errors.push(&first.function, format!("… also here: `{source}` is routed by `{name}` twice"));
    }
}

/// Whether an arm of it is missing.
fn broken(decision: &Decision) -> bool {
    decision.broken || decision.arms.iter().any(|arm| matches!(&arm.body, ArmBody::Decide(inner) if broken(inner)))
}
