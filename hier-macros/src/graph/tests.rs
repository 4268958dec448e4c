//! The errors of a call. The graph's type exists after every mistake.

mod agents;
mod generated;
mod nodes;
mod routes;

use crate::crate_path::Hier;
use crate::testing::{expect, messages};

fn errors(call: &str) -> Vec<String> {
    let output = super::expand(call.parse().unwrap(), &Hier::known("hier"));
    if !call.is_empty() {
        assert!(output.to_string().contains("struct G"), "no type in {output}");
    }
    messages(output)
}

fn graph(nodes: &str, edges: &str) -> Vec<String> {
    errors(&format!("G<S> = Graph {{ nodes: [{nodes}], edges: [{edges}] }}"))
}

#[test]
fn full_syntax_is_accepted() {
    let call = "
        /// Reviews a filing until it is accepted.
        pub G<Filing, Desk> = Graph {
            nodes: [
                validate,
                fetch { retry: 3, timeout: 5s, idle_timeout: 1.5m },
                assess { retry: Retry { attempts: 3, interval: 100ms, factor: 2.0, cap: 10s, jitter: 0.5 } },
                notify { cache: CACHE, writes: [artifact], goto: [archive, END], on_error: sorry },
                stored = storage::archive { defer },
                archive,
            ],
            edges: [
                START >> validate >> for doc in documents { fetch(doc) },
                fetch >> assess,
                assess >> match verdict {
                    Verdict::Accept(n) if n > 3 => [notify, archive],
                    Verdict::Redo | Verdict::Again => if often { validate } else if seldom { END } else { stored },
                    Verdict::Reject => END,
                    Verdict::One(doc) => fetch(doc),
                    Verdict::More => match (|s: &Filing| s.more) { true => notify, false => { END } }
                    Verdict::Most => for x in more { [fetch(x), fetch2(x.clone())] },
                },
                fetch2 >> END,
                [notify, archive] >> stored >> END,
            ],
            interrupt_before: [notify],
            input: Question,
        }";
    expect(&errors(&call.replace("archive,\n            ],", "archive, fetch2,\n            ],")), &[]);
    expect(&errors("G::<S,> = SimpleGraph { compute: other = path::f { retry: 2 }, name: \"x\" }"), &[]);
    expect(&graph("a, b, c", "START >> a >> [b, c] >> END"), &[]);
}

#[test]
fn durations_of_nothing_are_refused() {
    let messages =
        graph("a { timeout: 0s, idle_timeout: 0ms, cache: 0h, retry: Retry { interval: 0s } }", "START >> a >> END");
    expect(&messages, &["every attempt fails", "every attempt fails", "no result is ever reused"]);
}

#[test]
fn several_mistakes_are_reported_at_once() {
    let messages = graph(
        "a, b { retrys: 3, timeout: 5, cache: 5sec }, c d, a",
        "START > a, a >> match r { X => b >> c, Y => , Z => END, }, b >>, b >> bb",
    );
    expect(
        &messages,
        &[
            "a node has no option `retrys`; did you mean `retry`?",
            "a duration needs its unit: `5s`",
            "unknown unit of time `sec`",
            "expected `,`",
            "expected `>>` or `,`",
            "an arm ends at its targets",
            "expected a target",
            "expected a node",
            "the node `a` is given twice",
            "… also here: the node `a`",
            "there is no node `bb`; did you mean `b`?",
        ],
    );
}

#[test]
fn habits_of_other_libraries_are_explained() {
    expect(&graph("a", "start >> a >> end"), &["write `START` in capitals", "write `END` in capitals"]);
    expect(&graph("a", "START >> \"a\" >> END"), &["a node is named without quotes"]);
    expect(&graph("a", "START >> a >> [\"a\", END]"), &["a node is named without quotes"]);
    let pairs = "(START, a), (a, END)";
    expect(&graph("a", pairs), &["an edge is written `a >> b`, without parentheses"; 2]);
    let marked = ["attributes and doc comments are not possible here"];
    expect(&graph("#[cfg(x)] a, b", "START >> b >> END"), &marked);
    expect(&graph("a, b", "START >> a >> END, /// Then b.\n START >> b >> END"), &marked);
    let head =
        |attribute: &str| errors(&format!("{attribute} G<S> = Graph {{ nodes: [a], edges: [START >> a >> END] }}"));
    expect(&head("#[cfg(x)]"), &["`#[cfg(…)]` is not possible here: write it above `graph! { … }`"]);
    expect(&head("#[cfg_attr(x, derive(Hash))]"), &[]);
    expect(&errors("G<S> Graph { nodes: [a], edges: [START >> a >> END] }"), &["expected a graph: `Name<State"]);
    expect(&errors("G Graph { nodes: [a], edges: [START >> a >> END] }"), &["`G` needs its state"]);
}

#[test]
fn cache_has_a_ttl_and_an_optional_key() {
    let node = |options: &str| graph(&format!("a {{ {options} }}"), "START >> a >> END");
    for options in [
        "cache: 60s",
        "cache: TTL",
        "cache: Cache { ttl: 60s }",
        "cache: hier::graph::Cache { ttl: TTL, key: path::key::<u8> }",
        "cache: Cache { ttl: 60s, key: |state: &S| state.x, }",
    ] {
        expect(&node(options), &[]);
    }
    expect(&node("cache: Cache { key: f }"), &["a `Cache` needs the time for which a result is reused"]);
    expect(&node("cache: Cache {}"), &["a `Cache` needs the time for which a result is reused"]);
    expect(&node("cache: Cache { ttl: 60s, key_func: f }"), &["`Cache` has no field `key_func`"]);
    expect(&node("cache: Cache { ttl: 60, key: f }"), &["a duration needs its unit: `60s`"]);
    expect(&node("timeout: -5s"), &["a duration cannot be negative"]);
    let twice = ["the field `ttl` is given twice", "… also here: the field `ttl` is given twice"];
    expect(&node("cache: Cache { ttl: 60s, ttl: 1s }"), &twice);
}

#[test]
fn names_are_resolved() {
    let messages = errors(
        "G<S> = Graph { nodes: [assess { goto: [asess] }, END, compile], edges: [START >> asses >> END >> assess, \
         assess >> START, assess], interrupt_before: [nothing, assess, assess] }",
    );
    expect(
        &messages,
        &[
            "every graph has `END` already",
            "every graph has an item `compile`",
            "an edge cannot leave END, where a run ends",
            "an edge cannot lead to START",
            "an edge leads from a node to a target",
            "there is no node `asess`; did you mean `assess`?",
            "there is no node `asses`; did you mean `assess`?",
            "there is no node `nothing`",
            "the node `assess` is given twice in `interrupt_before`",
            "… also here: the node `assess` is given twice",
        ],
    );
}

#[test]
fn shapes_are_checked() {
    expect(&graph("a", "a >> END"), &["no edge leaves START"]);
    expect(&graph("a, b", "START >> a >> END, b >> END"), &["`b` can never run"]);
    expect(&graph("a", "START >> a >> a"), &["END cannot be reached from `a`"]);
    expect(&graph("a, b", "START >> a >> b"), &["END cannot be reached from `b`"]);
    expect(&graph("a", "START >> a >> END, a >> END"), &["the edge from `a`", "… also here: the edge from `a`"]);
    expect(
        &graph("a, b", "START >> a >> match r { X => b, Y => [b] }, b >> END"),
        &["all arms of `r` lead to the same"],
    );
    expect(&graph("G, b", "START >> G >> b >> END"), &["`G` cannot contain itself"]);
    let nested = "START >> a >> match r { X => if t { b } else { b }, Y => END }, b >> END";
    expect(&graph("a, b", nested), &["all arms of `t` lead to the same"]);
    let join = "START >> a >> if t { b } else { c }, [b, c] >> d >> END";
    let dead = ["this join can never fire", "… also here: this join", "… also here: this join"];
    expect(&graph("a, b, c, d", join), &dead);
    let loop_of_joins = "START >> d >> if t { END } else { [a, b] }, [a, b] >> c >> [a, b, END]";
    let endless = "a run can never end after `START >> d >> [a, b]`, because this join into `c` fires again and again";
    expect(&graph("a, b, c, d", loop_of_joins), &[endless]);
    let left = "START >> [a, b], [a, b] >> c >> if t { END } else { [a, b] }";
    expect(&graph("a, b, c", left), &[]);
    let apart = "START >> a >> if t { a } else if u { b } else { c }, [b, c] >> d >> END";
    expect(&graph("a, b, c, d", apart), &["(after `START >> a >> b` it waits for `c` forever)"]);
    // A join into END runs no node that could be missed.
    expect(&graph("a, b, c", "START >> a >> if t { b } else { c }, [b, c] >> END"), &[]);
}

#[test]
fn heads_are_checked() {
    expect(&errors("G = Graph { nodes: [a], edges: [START >> a >> END] }"), &["`G` needs its state: `G<State>`"]);
    expect(
        &errors("G<S, C, D> = Graph { nodes: [a], edges: [START >> a >> END] }"),
        &["a graph takes a state and a context"],
    );
    expect(
        &errors("G<S> = Grap { nodes: [a], edges: [START >> a >> END] }"),
        &["unknown kind of graph `Grap`; did you mean `Graph`?"],
    );
    expect(
        &errors("G<S> = Graph { node: [a], edges: [START >> a] }"),
        &["a `Graph` has no field `node`; did you mean"],
    );
    expect(&errors("G<S> = SimpleGraph { compute: a } G2<S> = Graph {}"), &["a `graph!` declares one graph"]);
    expect(
        &errors("G<S> = SimpleGraph { name: \"x\" }"),
        &["a `SimpleGraph` runs one function: add `compute: function`"],
    );
    expect(&errors("G<S>"), &["expected a graph: `Name"]);
    expect(&errors("G<'a, S> = SimpleGraph { compute: a }"), &["a graph has no lifetimes: write `G<State>`"]);
    expect(&errors("G<3> = SimpleGraph { compute: a }"), &["expected a type: a graph takes a state and a context"]);
    let parameter = "G<T><S, C> = Graph { nodes: [a], edges: [START >> a >> END] }";
    expect(&errors(parameter), &["a graph has no type parameters: write `G<State>`"]);
}

#[test]
fn full_agent_syntax_is_accepted() {
    let call = "
        /// Runs the desk.
        pub G<Filing, Desk> = TodoGraph {
            description: \"files\",
            name: \"desk\",
            args: Task,
            system: \"You run the desk.\",
            reasoning: |state: &Filing| state.question(),
            tools: [lookup, tools::search],
            tool_errors: ToolErrors::Tell,
            max_iterations: 40,
            reports_to_supervisor: false,
            report_into: artifact,
            front: [Normalise],
            subagents: [
                Extractor { merge_fields: [artifact, findings], max_iterations: 8 },
                stages::Matcher { discard_fields: [hint], clear_messages: false },
                Other {},
                Shared,
            ],
            back: [Package, Normalise],
            parallel_subagents: false,
            policy: Policy { preserve_chat_with_operator: false, reset_iteration: true },
            on_entry: enter,
            on_exit: leave,
            todo_check: is_done,
            todo_refusal: \"not yet\",
            interrupt_before: [tool, extractor],
        }";
    expect(&errors(call), &[]);
}

#[test]
fn agents_and_policies_are_checked() {
    let react = |fields: &str| errors(&format!("G<S> = ReactGraph {{ {fields} }}"));
    expect(&react("subagent: [A]"), &["a `ReactGraph` has no field `subagent`; did you mean `subagents`?"]);
    expect(&react("todo_check: f"), &["a `ReactGraph` has no field `todo_check`"]);
    expect(&react("nodes: [a]"), &["a `ReactGraph` has no field `nodes`"]);
    expect(&react("max_iterations: 0"), &["an agent with `max_iterations: 0` does nothing"]);
    expect(&react("max_repeats: 0"), &["an agent with `max_repeats: 0` does nothing"]);
    expect(&react("max_repeats: 5"), &[]);
    expect(&react("tools: [\"look\"]"), &["a tool is the path of a `#[tool]` function: remove the quotes"]);
    expect(&react("tools: [look()]"), &["a tool is named, not called"]);
    expect(&react("tools: [look, |desk| &desk.crm]"), &[]);
    expect(&react("tools: [|| &CRM]"), &["a toolset depends only on the context"]);
    expect(&react("parallel_subagents: maybe"), &["`parallel_subagents` needs a literal"]);
    expect(&react("subagents: [G {}]"), &["`G` cannot contain itself"]);
    expect(&react("front: [G]"), &["`G` cannot contain itself"]);
    let twice = ["the subagent `A` is given twice", "… also here: the subagent `A` is given twice"];
    expect(&react("subagents: [A, A { clear_messages: false }]"), &twice);
    expect(
        &react("subagents: [A { clear_mesages: false, max_iterations: 0 }, B { merge_fields: [a, b, a] }]"),
        &[
            "a policy has no option `clear_mesages`; did you mean `clear_messages`?",
            "a subagent with `max_iterations: 0` does nothing",
            "the channel `a` is given twice: remove one",
            "… also here: the channel `a` is given twice",
        ],
    );
    let both = ["`a` is both merged and discarded: remove one", "… also here: `a` is both"];
    expect(&react("subagents: [A { merge_fields: [a], discard_fields: [a] }]"), &both);
    let own = "G<S> = SimpleGraph { compute: f, policy: Policy { merge_fields: [a], discard_fields: [a] } }";
    expect(&errors(own), &both);
    expect(&react("policy: Poliy {}"), &["expected a policy: `Policy {"]);
    expect(&react("interrupt_before: [tol]"), &["there is no node `tol`; did you mean `tool`?"]);
}

#[test]
fn full_answering_agent_syntax_is_accepted() {
    let call = "
        /// Answers customers.
        pub G<Chat, Desk> = Agent {
            system: |state: &Chat| state.role.clone(),
            model: |desk| &desk.smart,
            options: ModelOptions { temperature: 0.2, reasoning: Effort::Low, stop: [\"END\"] },
            tools: [lookup, refund],
            layers: [
                Compact { at: 0.8 },
                Inherited(Compact),
                Fallback(|desk| &desk.cheap),
                Limit { model_calls: 50 },
                Redact(emails),
                Redact(Emails).mark(\"x\"),
                Inherited(Retry { attempts: 3, interval: 100ms, ..quick() }),
                Inherited(Retry { attempts: 3, interval: 100ms }),
                Guard(checked),
                own::Audit { sink: 1 },
                own(),
                OWN,
            ],
            subagents: [Researcher { merge_fields: [findings] }],
            parallel_subagents: true,
            answer: verdict,
            attempts: 2,
            max_iterations: 20,
            tool_errors: ToolErrors::Tell,
            report_into: note,
            front: [Normalise],
            back: [Package],
            interrupt_before: [tools, model],
        }";
    expect(&errors(call), &[]);
    expect(&errors("G<S> = Agent { options: careful() }"), &[]);
    expect(&errors("G<S> = Agent {}"), &[]);
}

#[test]
fn misplaced_and_foreign_words_get_a_hint() {
    let agent = |fields: &str| errors(&format!("G<S> = Agent {{ {fields} }}"));
    let reporting = "an `Agent` has no field `reasoning`: it is a field of a `ReactGraph` and a `TodoGraph`";
    expect(&agent("reasoning: \"?\""), &[reporting]);
    expect(&agent("nodes: [a]"), &["an `Agent` has no field `nodes`: it is a field of a `Graph`"]);
    expect(
        &errors("G<S> = ReactGraph { answer: a }"),
        &["a `ReactGraph` has no field `answer`: it is a field of an `Agent`"],
    );
    expect(&agent("prompt: \"?\""), &["an `Agent` has no field `prompt`: write `system: "]);
    expect(&agent("response_format: V"), &["an `Agent` has no field `response_format`: write `answer: channel`"]);
    expect(&agent("state_schema: S"), &["an `Agent` has no field `state_schema`: write the state in the head"]);
    expect(&agent("temperature: 0.2"), &["an `Agent` has no field `temperature`: write `options:"]);
    expect(&agent("sistem: \"?\""), &["an `Agent` has no field `sistem`; did you mean `system`?"]);
    expect(&agent("attempts: 0"), &["an agent with `attempts: 0` does nothing"]);
    expect(&agent("answer: Verdict"), &["`answer` names the channel"]);
    expect(&agent("answer: \"verdict\""), &["`answer` names the channel"]);
    expect(&agent("model: \"gpt\""), &["`model` selects a model of the context"]);
    expect(
        &agent("options: ModelOptions { temprature: 0.2, seed: 1, seed: 2 }"),
        &[
            "`ModelOptions` has no option `temprature`; did you mean `temperature`?",
            "the option `seed` is given twice: remove one",
            "… also here: the option `seed` is given twice",
        ],
    );
    expect(&agent("interrupt_before: [tool]"), &["there is no node `tool`; did you mean `tools`?"]);
    expect(&errors("G<S> = Agnt {}"), &["did you mean `Agent`?"]);
}

#[test]
fn incomplete_layers_are_reported_with_their_syntax() {
    let layers = |layers: &str| errors(&format!("G<S> = Agent {{ layers: {layers} }}"));
    expect(&layers("Limit {}"), &["expected a list of layers: `[…]`"]);
    expect(
        &layers("[Limit { model_call: 1, tokens: 1, tokens: 2 }, Limit {}, Limit(50), Limit]"),
        &[
            "`Limit` has no field `model_call`; did you mean `model_calls`?",
            "the field `tokens` is given twice: remove one",
            "… also here: the field `tokens` is given twice",
            "`Limit` without a field does nothing: add `model_calls` or `tool_calls` or `tokens` or `cost`",
            "`Limit` needs its fields: `Limit { model_calls: … }`",
            "`Limit` needs its fields: `Limit { model_calls: … }`",
        ],
    );
    expect(
        &layers("[Limit { cost: -2.0 }, Limit { cost: -1 }, Limit { cost: -0.0 }, Limit { cost: -MOST }]"),
        &["a limit of cost is at least 0 US dollars", "a limit of cost is at least 0 US dollars"],
    );
    expect(
        &layers("[Retry { attempts: 0 }, Retry { interval: 10 }, Retry { atempts: 3 }, Retry(3)]"),
        &[
            "a model has at least one attempt",
            "a duration needs its unit: `10s`",
            "`Retry` has no field `atempts`; did you mean `attempts`?",
            "`Retry` needs its fields: `Retry { attempts: 3 }`",
        ],
    );
    expect(
        &layers(
            "[Redact, Redact { find: Emails }, Fallback(), Fallback(a, b), Guard {}, Inherited, Inherited(\"x\", y)]",
        ),
        &[
            "`Redact` takes a detector of secrets: `Redact(Emails)`",
            "`Redact` takes a detector of secrets: `Redact(Emails)`",
            "`Fallback` takes a closure that selects a model of the context: `Fallback(|context| &context.cheap)`",
            "`Fallback` takes a closure that selects a model of the context",
            "`Guard` takes a function that decides about a call",
            "`Inherited` takes a layer: `Inherited(Limit { model_calls: 50 })`",
            "`Inherited` takes a layer",
        ],
    );
    expect(&layers("[\"Limit\"]"), &["a layer is a value"]);
    expect(
        &layers(
            "[Compact { at: 0.7 }, Inherited(Compact), Inherited(Limit { tokens: 1 }), Compact { at: 0.9 }.to(0.1)]",
        ),
        &["`Compact` is given twice: remove one, which would have no effect", "… also here: `Compact` is given twice"],
    );
    expect(&layers("[PIIMiddleware(\"email\")]"), &["`PIIMiddleware` is not a layer of hier: write `Redact(Emails)`"]);
    expect(
        &errors("G<S> = SimpleGraph { compute: f, layers: [] }"),
        &["a `SimpleGraph` has no field `layers`: it is a field of an `Agent` and a `ReactGraph` and a `TodoGraph`"],
    );
    expect(&errors("G<S> = Agent { middleware: [] }"), &["an `Agent` has no field `middleware`: write `layers: […]`"]);
}

#[test]
fn agents_and_tools_need_more_than_the_core() {
    let found = |call: &str| messages(super::expand(call.parse().unwrap(), &Hier::core()));
    let fix = "but this crate depends only on `hier-core`: add `hier-graph` or `hier-agents` to its dependencies";
    assert_eq!(found("G<S> = Agent { system: \"\" }"), [format!("`G` is an agent, {fix}")]);
    assert_eq!(
        found("G<S> = Graph { nodes: [act = tools![look]], edges: [START >> act >> END] }"),
        [format!("node `act` calls tools, {fix}")]
    );
    assert_eq!(
        found("G<S> = Graph { nodes: [a], edges: [START >> a >> END], policy: Policy { merge_fields: [x] } }"),
        [format!("the policy and the arguments of `G` are for agents, {fix}")]
    );
    assert!(found("G<S> = Graph { nodes: [a], edges: [START >> a >> END] }").is_empty());
}
