//! Graphs inside graphs.

use super::*;

fn add_graph(outer: Builder, name: &str, inner: &CompiledGraph<DynState>) -> Builder {
    outer.subgraph(name, inner)
}

/// START, `p1`, a graph of `i1` and `i2`, `p2`, END.
pub(super) fn nested() -> CompiledGraph<DynState> {
    let inner = compiled(chain(&["i1", "i2"]));
    let mut outer = graph(&["p1"]);
    outer = add_graph(outer, "sub", &inner);
    outer = add(outer, "p2");
    outer = outer.edge(START, "p1").edge("p1", "sub").edge("sub", "p2").edge("p2", END);
    compiled(outer)
}

/// START, the graph, `z`, END.
fn before_z(inner: &CompiledGraph<DynState>) -> CompiledGraph<DynState> {
    let mut outer = Builder::dynamic("outer", Schema::new().last("x"));
    outer = add_graph(outer, "sub", inner);
    outer = add(outer, "z");
    outer = outer.edge(START, "sub").edge("sub", "z").edge("z", END);
    compiled(outer)
}

fn diamond() -> CompiledGraph<DynState> {
    let mut graph = graph(&["f", "l", "r"]);
    graph = graph.edge(START, "f").edge("f", "l").edge("f", "r").edge("l", END).edge("r", END);
    compiled(graph)
}

#[test]
fn graph_in_a_graph_is_framed() {
    draws(
        &nested(),
        r"__start__([<p>__start__</p>]):::first
        p1(p1)
        p2(p2)
        __end__([<p>__end__</p>]):::last
        __start__ --> p1;
        p1 --> sub\3ai1;
        sub\3ai2 --> p2;
        p2 --> __end__;
        subgraph sub
        sub\3ai1(i1)
        sub\3ai2(i2)
        sub\3ai1 --> sub\3ai2;
        end",
    );
}

#[test]
fn frames_nest() {
    let mut outer = graph(&["top"]);
    outer = add_graph(outer, "mid", &nested());
    outer = outer.edge(START, "top").edge("top", "mid").edge("mid", END);
    draws(
        &compiled(outer),
        r"__start__([<p>__start__</p>]):::first
        top(top)
        __end__([<p>__end__</p>]):::last
        __start__ --> top;
        top --> mid\3ap1;
        mid\3ap2 --> __end__;
        subgraph mid
        mid\3ap1(p1)
        mid\3ap2(p2)
        mid\3ap1 --> mid\3asub\3ai1;
        mid\3asub\3ai2 --> mid\3ap2;
        subgraph sub
        mid\3asub\3ai1(i1)
        mid\3asub\3ai2(i2)
        mid\3asub\3ai1 --> mid\3asub\3ai2;
        end
        end",
    );
}

#[test]
fn graph_of_one_node() {
    draws(
        &before_z(&compiled(chain(&["only"]))),
        r"__start__([<p>__start__</p>]):::first
        z(z)
        __end__([<p>__end__</p>]):::last
        __start__ --> sub\3aonly;
        sub\3aonly --> z;
        z --> __end__;
        subgraph sub
        sub\3aonly(only)
        end",
    );
}

#[test]
fn start_and_end_are_drawn_unless_replaced() {
    let mut inner = graph(&["i1", "i2"]);
    inner = inner.edge(START, "i1").edge("i2", "i1");
    inner = inner.route("i1", "choose", [("i2", vec![EdgeEnd::from("i2")]), ("stop", vec![END.into()])], |_| "stop");
    draws(
        &before_z(&compiled(inner)),
        r"__start__([<p>__start__</p>]):::first
        z(z)
        __end__([<p>__end__</p>]):::last
        __start__ --> sub\3a__start__;
        sub\3a__end__ --> z;
        z --> __end__;
        subgraph sub
        sub\3a__start__(<p>__start__</p>)
        sub\3ai1(i1)
        sub\3ai2(i2)
        sub\3a__end__(<p>__end__</p>)
        sub\3a__start__ --> sub\3ai1;
        sub\3ai1 -. &nbsp;stop&nbsp; .-> sub\3a__end__;
        sub\3ai1 -.-> sub\3ai2;
        sub\3ai2 --> sub\3ai1;
        end",
    );
    draws(
        &before_z(&diamond()),
        r"__start__([<p>__start__</p>]):::first
        z(z)
        __end__([<p>__end__</p>]):::last
        __start__ --> sub\3af;
        sub\3a__end__ --> z;
        z --> __end__;
        subgraph sub
        sub\3af(f)
        sub\3al(l)
        sub\3ar(r)
        sub\3a__end__(<p>__end__</p>)
        sub\3af --> sub\3al;
        sub\3af --> sub\3ar;
        sub\3al --> sub\3a__end__;
        sub\3ar --> sub\3a__end__;
        end",
    );
}

/// Two graphs behind a route.
pub(super) fn two() -> CompiledGraph<DynState> {
    let mut outer = Builder::dynamic("outer", Schema::new().last("x"));
    outer = add_graph(outer, "b_sub", &compiled(chain(&["i1", "i2"])));
    outer = add_graph(outer, "a_sub", &diamond());
    outer = add(outer, "w");
    outer = outer.edge(START, "w").edge("a_sub", "w").edge("b_sub", END);
    outer = outer.route("w", "choose", [("bee", vec!["b_sub"]), ("ay", vec!["a_sub"])], |_| "bee");
    compiled(outer)
}

#[test]
fn frames_come_in_the_order_of_their_nodes() {
    draws(
        &two(),
        r"__start__([<p>__start__</p>]):::first
        w(w)
        __end__([<p>__end__</p>]):::last
        __start__ --> w;
        a_sub\3a__end__ --> w;
        w -. &nbsp;ay&nbsp; .-> a_sub\3af;
        w -. &nbsp;bee&nbsp; .-> b_sub\3ai1;
        b_sub\3ai2 --> __end__;
        subgraph b_sub
        b_sub\3ai1(i1)
        b_sub\3ai2(i2)
        b_sub\3ai1 --> b_sub\3ai2;
        end
        subgraph a_sub
        a_sub\3af(f)
        a_sub\3al(l)
        a_sub\3ar(r)
        a_sub\3a__end__(<p>__end__</p>)
        a_sub\3af --> a_sub\3al;
        a_sub\3af --> a_sub\3ar;
        a_sub\3al --> a_sub\3a__end__;
        a_sub\3ar --> a_sub\3a__end__;
        end",
    );
}

/// LangGraph omits a frame that contains only a frame, and refuses two frames of one name.
#[test]
fn frame_directly_in_a_frame_of_the_same_name() {
    let mut middle = Builder::dynamic("middle", Schema::new().last("x"));
    middle = add_graph(middle, "sub", &compiled(chain(&["i1", "i2"])));
    middle = middle.edge(START, "sub").edge("sub", END);
    draws(
        &before_z(&compiled(middle)),
        r#"__start__([<p>__start__</p>]):::first
        z(z)
        __end__([<p>__end__</p>]):::last
        __start__ --> sub\3asub\3ai1;
        sub\3asub\3ai2 --> z;
        z --> __end__;
        subgraph sub
        subgraph sub\3asub["sub"]
        sub\3asub\3ai1(i1)
        sub\3asub\3ai2(i2)
        sub\3asub\3ai1 --> sub\3asub\3ai2;
        end
        end"#,
    );
}
