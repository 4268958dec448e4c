//! The rules of agents and policies, each with the nearest agent that keeps it.

use super::errors;
use crate::testing::expect;

fn agent(fields: &str) -> Vec<String> {
    errors(&format!("G<S> = Agent {{ {fields} }}"))
}

#[test]
fn only_subagents_run_in_the_background() {
    expect(&agent("subagents: [A { background: true }, B { background: false, merge_fields: [a] }]"), &[]);
    for stages in ["front", "back"] {
        let message = "stages run one after the other: remove `background`, or make the stage a subagent";
        expect(&agent(&format!("{stages}: [A {{ background: true }}]")), &[message]);
        expect(&agent(&format!("{stages}: [A {{ clear_messages: true }}]")), &[]);
    }
    for list in ["merge_fields", "discard_fields"] {
        let fields = format!("subagents: [A {{ background: true, {list}: [a, b] }}]");
        let message = format!("`{list}` does not go with `background: true`");
        expect(&agent(&fields), &[&message, &format!("… also here: `background: true` does not go with `{list}`")]);
    }
    expect(
        &agent("policy: Policy { background: true }"),
        &["`background` stands where a supervisor attaches the graph: `subagents: [G { background: true }]`"],
    );
}

#[test]
fn agents_do_not_contain_themselves() {
    for path in ["G", "Self", "G { clear_messages: true }"] {
        expect(&agent(&format!("subagents: [{path}]")), &["`G` cannot contain itself: its runs would never end"]);
    }
    expect(&agent("subagents: [other::G, A]"), &[]);
}

#[test]
fn one_layer_selects_the_conversation() {
    let twice = ["`Compact` is given twice: remove one", "… also here: `Compact` is given twice"];
    expect(&agent("layers: [Compact { at: 0.8 }, Limit { model_calls: 1 }, hier_agents::Compact { at: 0.5 }]"), &twice);
    expect(&agent("layers: [Compact { at: 0.8 }.by(cheap), Compact { at: 0.5 }]"), &twice);
    expect(&agent("layers: [Inherited(Compact { at: 0.8 }), Inherited(Compact { at: 0.5 })]"), &twice);
    expect(
        &agent(
            "layers: [Inherited(Compact { at: 0.8 }), Compact { at: 0.5 }, Limit { model_calls: 1 }, Limit { model_calls: 2 }]",
        ),
        &[],
    );
}
