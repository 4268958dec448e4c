//! The graph as a constant.

use hier_spec::{ArmTarget, EdgeSpec, Goto, NodeSpec, Source, Target};
use proc_macro2::TokenStream;
use quote::quote;

use super::super::agent::shape;
use super::super::ast::agent::AgentFields;
use super::super::model::GraphModel;
use super::{agent, code};

pub(super) fn spec(model: &GraphModel) -> TokenStream {
    let spec = &model.spec;
    let (name, doc) = (&*spec.name, &model.docs);
    let nodes = spec.nodes.iter().enumerate().map(|(index, spec)| node(model, index, spec));
    let edges = spec.edges.iter().map(edge);
    let (before, after) = (spec.interrupt_before.iter(), spec.interrupt_after.iter());
    quote! {
        &__hier::GraphSpec::declared(
            #name,
            #doc,
            const { &[#(#nodes),*] },
            const { &[#(#edges),*] },
            &[#(#before),*],
            &[#(#after),*],
        )
    }
}

fn node(model: &GraphModel, index: usize, spec: &NodeSpec) -> TokenStream {
    if let Some(asking) = &model.agent {
        return agent_node(model, asking, index, spec);
    }
    let (name, defer) = (&*spec.name, spec.defer);
    let (goto, channels) = (goto(spec), spec.writes.iter().map(|channel| &**channel));
    // An additional constant for each node would increase the compile time.
    let writes =
        if spec.writes.is_empty() { quote!(&[]) } else { quote!(const { &[#(__hier::Text::Borrowed(#channels)),*] }) };
    let nested = if model.is_itself(&model.nodes[index]) {
        quote!(::core::option::Option::None)
    } else {
        let facts = code::facts(index);
        quote!(#facts.nested())
    };
    let (constructor, flow) = if model.is_sound {
        let channels = super::flow::function();
        (quote!(typed), Some(quote!(__hier::FlowSpec::new(#channels, #index),)))
    } else {
        (quote!(declared), None)
    };
    quote! {
        __hier::NodeSpec::#constructor(
            #name,
            #defer,
            #goto,
            #writes,
            #nested,
            #flow
        )
    }
}

fn goto(spec: &NodeSpec) -> TokenStream {
    let targets = match &spec.goto {
        Goto::Only(targets) => &**targets,
        Goto::Any => &[],
    };
    let targets = targets.iter().map(|to| target(*to));
    quote!(&[#(#targets),*])
}

/// Returns a node of an agent: a node that every agent has, or a member.
fn agent_node(model: &GraphModel, asking: &AgentFields, index: usize, spec: &NodeSpec) -> TokenStream {
    let members = shape::members(asking).count();
    let first = model.spec.nodes.len() - members;
    let name = &*spec.name;
    if let Some(number) = index.checked_sub(first) {
        let known = agent::numbered(model, asking).any(|(other, _)| other == number);
        return if known { agent::node(asking, number, name) } else { quote!(__hier::NodeSpec::new(#name)) };
    }
    let goto = goto(spec);
    if !spec.layers.is_empty() {
        let layers = spec.layers.iter().map(|layer| &**layer);
        return quote!(__hier::NodeSpec::layered(#name, #goto, const { &[#(__hier::Text::Borrowed(#layers)),*] }));
    }
    quote! {
        __hier::NodeSpec::declared(#name, false, #goto, const { &[] }, ::core::option::Option::None)
    }
}

fn edge(edge: &EdgeSpec) -> TokenStream {
    match edge {
        EdgeSpec::Plain { from, to } => {
            let (from, to) = (source(*from), target(*to));
            quote!(__hier::EdgeSpec::Plain { from: #from, to: #to })
        }
        EdgeSpec::Join { from, to } => {
            let (from, to) = (from.iter(), target(*to));
            quote!(__hier::EdgeSpec::join(&[#(#from),*], #to))
        }
        EdgeSpec::Route { from, label, arms } => {
            let (from, label) = (source(*from), &**label);
            let arms = arms.iter().map(|arm| {
                let (label, to) = (&*arm.label, arm.to.iter().map(|to| arm_target(*to)));
                quote!(__hier::ArmSpec::declared(#label, &[#(#to),*]))
            });
            quote!(__hier::EdgeSpec::route(#from, #label, const { &[#(#arms),*] }))
        }
    }
}

fn source(source: Source) -> TokenStream {
    match source {
        Source::Start => quote!(__hier::Source::Start),
        Source::Node(node) => quote!(__hier::Source::Node(#node)),
    }
}

fn target(target: Target) -> TokenStream {
    match target {
        Target::End => quote!(__hier::SpecTarget::End),
        Target::Node(node) => quote!(__hier::SpecTarget::Node(#node)),
    }
}

fn arm_target(to: ArmTarget) -> TokenStream {
    match to {
        ArmTarget::Go(to) => {
            let to = target(to);
            quote!(__hier::ArmTarget::Go(#to))
        }
        ArmTarget::Send(node) => quote!(__hier::ArmTarget::Send(#node)),
    }
}
