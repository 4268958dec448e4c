//! Tests with random graphs that are written as macro calls. The macro must read each call as the original graph and
//! find the same violations.

#[path = "../../../hier-spec/tests/choices/mod.rs"]
#[allow(dead_code, reason = "only the graphs are of use here")]
mod choices;

use std::fmt::Write as _;

use choices::{Numbers, graph};
use hier_spec::{ArmSpec, ArmTarget, EdgeSpec, Goto, GraphSpec, Source, Target, check};

use super::{model, parse};
use crate::crate_path::Hier;
use crate::diag::Errors;

fn source(from: Source) -> String {
    match from {
        Source::Start => "START".to_owned(),
        Source::Node(node) => format!("n{node}"),
    }
}

fn target(to: Target) -> String {
    match to {
        Target::End => "END".to_owned(),
        Target::Node(node) => format!("n{node}"),
    }
}

fn arms(label: &str, arms: &[ArmSpec]) -> String {
    if let [ArmSpec { to, .. }] = arms
        && let [ArmTarget::Send(node)] = &**to
    {
        return format!("for item in {label} {{ n{node}(item) }}");
    }
    let mut text = format!("match {label} {{ ");
    for arm in arms {
        let to: Vec<_> = arm.to.iter().map(|to| target(to.target())).collect();
        let _ = write!(text, "{} => [{}], ", arm.label, to.join(", "));
    }
    text + "}"
}

fn edge(edge: &EdgeSpec) -> String {
    match edge {
        EdgeSpec::Plain { from, to } => format!("{} >> {}", source(*from), target(*to)),
        EdgeSpec::Join { from, to } => {
            let from: Vec<_> = from.iter().map(|node| source(Source::Node(*node))).collect();
            format!("[{}] >> {}", from.join(", "), target(*to))
        }
        EdgeSpec::Route { from, label, arms: all } => format!("{} >> {}", source(*from), arms(label, all)),
    }
}

fn call(spec: &GraphSpec) -> String {
    let nodes = spec.nodes.iter().map(|node| {
        let mut options = Vec::new();
        if node.defer {
            options.push("defer".to_owned());
        }
        if let Goto::Only(to) = &node.goto
            && !to.is_empty()
        {
            options.push(format!("goto: [{}]", to.iter().map(|to| target(*to)).collect::<Vec<_>>().join(", ")));
        }
        if !node.writes.is_empty() {
            options.push(format!("writes: [{}]", node.writes.join(", ")));
        }
        format!("{} {{ {} }}", node.name, options.join(", "))
    });
    let nodes: Vec<_> = nodes.collect();
    let edges: Vec<_> = spec.edges.iter().map(edge).collect();
    format!("G<S> = Graph {{ nodes: [{}], edges: [{}] }}", nodes.join(", "), edges.join(", "))
}

fn describe(spec: &GraphSpec) -> Vec<String> {
    let nodes = spec.nodes.iter().map(|node| format!("{} {} {:?} {:?}", node.name, node.defer, node.goto, node.writes));
    let edges = spec.edges.iter().map(edge);
    let findings = check(spec).into_iter().map(|finding| format!("{:?} {:?}", finding.rule, finding.message));
    nodes.chain(edges).chain(findings).collect()
}

#[test]
fn macro_reads_written_graph_back() {
    let mut random = Numbers(1);
    for _ in 0..2_000 {
        let spec = graph(&mut random);
        let call = call(&spec);
        let mut errors = Errors::default();
        let ast = parse::parse(call.parse().expect("tokens"), &mut errors).expect("a graph");
        let model = model::model(ast, &Hier::known("hier"), &mut errors);
        assert_eq!(describe(&model.spec), describe(&spec), "{call}");
        assert!(errors.into_tokens().is_empty(), "{call}");
    }
}
