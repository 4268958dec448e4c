//! Mistakes in the list of nodes.

use super::graph;
use crate::testing::expect;

#[test]
fn other_syntax_for_the_name_of_a_node_is_refused_with_the_right_one() {
    let edges = "START >> a >> END";
    expect(&graph("a: nodes::b", edges), &["a node gets another name with `=`: write `a = path`"]);
    expect(&graph("a: async |s: &S| s.update()", edges), &["a node gets another name with `=`: write `a = path`"]);
    expect(
        &graph("nodes::b as a", edges),
        &["a node gets another name with `=`, and not with `as`: write `name = path`"],
    );
    expect(&graph("a = nodes::b", edges), &[]);
    expect(&graph("a = ::nodes::b, c", "START >> a >> c >> END"), &[]);
}
