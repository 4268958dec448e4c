//! The rules of routes.

use super::graph;
use crate::testing::expect;

#[test]
fn routes_end_a_chain_with_one_source() {
    expect(&graph("a, b", "START >> a >> if t { b } else { END } >> b, b >> END"), &["nothing can follow an `if`"]);
    expect(&graph("a, b", "START >> [a, b] >> match r { _ => END }"), &["a `match` cannot follow a list"]);
    expect(&graph("a", "START >> a, match r { _ => END }"), &["this `match` needs a node before it"]);
    expect(&graph("a", "START >> a >> if t { END }"), &["this `if` has no `else`"]);
    expect(&graph("a", "START >> a >> if let Some(x) = t { END } else { a }"), &["an `if let` needs `state`"]);
    let inner = "START >> a >> match state.v { Some(state) => if state.late { END } else { a }, None => END }";
    expect(&graph("a", inner), &["`state` is the graph's state in an inner route: rename this variable"]);
    expect(&graph("a", "START >> a >> match r() { X => END }"), &["write `r` without the call"]);
    expect(
        &graph("a", "START >> a >> for x in xs { a }, a >> END"),
        &["a node in a `for` receives an item: write `a(item)`"],
    );
    let twice = "START >> a >> match r { X => a, Y => END }, a >> match r { X => END, Y => a }";
    expect(
        &graph("a", twice),
        &["two routes of `a` have the name `r`", "… also here: two routes of `a` have the name `r`"],
    );
}

#[test]
fn nested_route_uses_variables_of_outer_patterns() {
    let route = |route: &str| graph("a, b", &format!("START >> {route}, a >> END, b >> END"));
    for fine in [
        "match state.v { V::List(items) => for item in items { a(item) }, V::One(one) => if one > 3 { b } else { END } }",
        "match v { V(x) => match x { Some(y) if y > x => a, Some(y) => if y { b } else { END }, _ => END } }",
        "if let Some(list) = state.v { for (n, item) in list.iter().enumerate() { a((n, item)) } } else { b }",
        "match v { V { x: all @ [first, ..] } => if first == all { a } else { b }, _ => END }",
    ] {
        expect(&route(fine), &[]);
    }
    let unknown = ["expected the path of a function, a closure in parentheses"];
    expect(&route("match v { V(x) => if y > 3 { a } else { b }, _ => END }"), &unknown);
    expect(&route("if let Some(x) = state.v { a } else { if x > 3 { b } else { END } }"), &unknown);
    expect(&route("for x in state.v { if x > 3 { a(x) } else { b(x) } }"), &["a `for` contains only nodes"]);
}
