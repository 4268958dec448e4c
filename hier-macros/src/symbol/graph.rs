//! The words of `graph!`.

use super::{ARGS, CRATE};

/// The entry of a graph, in its edges.
pub(crate) const START: &str = "START";
/// The end of a graph, in its edges.
pub(crate) const END: &str = "END";

/// The state, in the expressions of routes.
pub(crate) const STATE_VALUE: &str = "state";

/// Kind: nodes and edges.
pub(crate) const GRAPH: &str = "Graph";
/// Kind: one node.
pub(crate) const SIMPLE_GRAPH: &str = "SimpleGraph";
/// Kind: an agent that ends when its model answers.
pub(crate) const AGENT: &str = "Agent";
/// Kind: a member of a hierarchy that asks a model what to do until it reports.
pub(crate) const REACT_GRAPH: &str = "ReactGraph";
/// Kind: the same with a list of things to do.
pub(crate) const TODO_GRAPH: &str = "TodoGraph";
/// The kinds that can stand after the `=` of `graph!`.
pub(crate) const KINDS: &[&str] = &[GRAPH, SIMPLE_GRAPH, AGENT, REACT_GRAPH, TODO_GRAPH];

/// Field: the nodes.
pub(crate) const NODES: &str = "nodes";
/// Field: the edges.
pub(crate) const EDGES: &str = "edges";
/// Field of a [`SIMPLE_GRAPH`]: its node.
pub(crate) const COMPUTE: &str = "compute";
/// Field: the view that a run is started with.
pub(crate) const INPUT: &str = "input";
/// Field: the view that a run results in.
pub(crate) const OUTPUT: &str = "output";
/// Field: nodes before which a run stops.
pub(crate) const INTERRUPT_BEFORE: &str = "interrupt_before";
/// Field: nodes after which a run stops.
pub(crate) const INTERRUPT_AFTER: &str = "interrupt_after";
/// Field: the graph's name, where it is not its type's name in snake case.
pub(crate) const NAME: &str = "name";
/// Field: what the graph is for, where it is not its doc comment.
pub(crate) const DESCRIPTION: &str = "description";
/// Field: what the graph is given and gives back as a subagent.
pub(crate) const POLICY: &str = "policy";
// Field: [`ARGS`], the type of the arguments with which the graph is called as a subagent.
/// Field: code that runs when the graph is entered as a subagent.
pub(crate) const ON_ENTRY: &str = "on_entry";
/// Field: the channel to which messages from outside are written.
pub(crate) const INBOX: &str = "inbox";
/// Field: code that runs when the graph is left as a subagent.
pub(crate) const ON_EXIT: &str = "on_exit";
/// Field of an agent: what its model is told to be.
pub(crate) const SYSTEM: &str = "system";
/// Field of an agent: the model that it asks.
pub(crate) const MODEL: &str = "model";
/// Field of an agent: how its model is to answer.
pub(crate) const OPTIONS: &str = "options";
/// Field of an agent: what stands around its calls of models and tools.
pub(crate) const LAYERS: &str = "layers";
/// Field of an [`AGENT`]: the channel that it gives its answer in.
pub(crate) const ANSWER: &str = "answer";
/// Field of an [`AGENT`]: how many answers of its model may be of no use.
pub(crate) const ANSWER_ATTEMPTS: &str = "attempts";
/// Field of an agent that reports: what its model is asked each time.
pub(crate) const REASONING: &str = "reasoning";
/// Field of an agent: the tools that its model can call.
pub(crate) const TOOLS: &str = "tools";
/// Field of an agent: what becomes of a tool that fails.
pub(crate) const TOOL_ERRORS: &str = "tool_errors";
/// Field of an agent, option of a policy: how often its model may be asked.
pub(crate) const MAX_ITERATIONS: &str = "max_iterations";
/// Field of an agent: how often in a row a call may have the same result.
pub(crate) const MAX_REPEATS: &str = "max_repeats";
/// Field of an agent that reports: whether it has a supervisor.
pub(crate) const REPORTS_TO_SUPERVISOR: &str = "reports_to_supervisor";
/// Field of an agent: another channel that its report is written to.
pub(crate) const REPORT_INTO: &str = "report_into";
/// Field of an agent: what runs before its model is asked.
pub(crate) const FRONT: &str = "front";
/// Field of an agent: what runs after its report.
pub(crate) const BACK: &str = "back";
/// Field of an agent: the graphs that its model can call.
pub(crate) const SUBAGENTS: &str = "subagents";
/// Field of an agent: whether its model may call several subagents at once.
pub(crate) const PARALLEL_SUBAGENTS: &str = "parallel_subagents";
/// Field of a [`TODO_GRAPH`]: when it may report.
pub(crate) const TODO_CHECK: &str = "todo_check";
/// Field of a [`TODO_GRAPH`]: what its model is told otherwise.
pub(crate) const TODO_REFUSAL: &str = "todo_refusal";

/// The fields that every kind has.
const COMMON_FIELDS: [&str; 12] = [
    INPUT,
    OUTPUT,
    INTERRUPT_BEFORE,
    INTERRUPT_AFTER,
    NAME,
    DESCRIPTION,
    POLICY,
    ARGS,
    ON_ENTRY,
    ON_EXIT,
    INBOX,
    CRATE,
];
/// The fields of a [`GRAPH`] alone.
const GRAPH_FIELDS: [&str; 2] = [NODES, EDGES];
/// The fields of a [`SIMPLE_GRAPH`] alone.
const SIMPLE_FIELDS: [&str; 1] = [COMPUTE];
/// The fields of all kinds of agents.
const AGENT_FIELDS: [&str; 13] = [
    SYSTEM,
    MODEL,
    OPTIONS,
    LAYERS,
    TOOLS,
    TOOL_ERRORS,
    MAX_ITERATIONS,
    MAX_REPEATS,
    REPORT_INTO,
    FRONT,
    BACK,
    SUBAGENTS,
    PARALLEL_SUBAGENTS,
];
/// The fields of an [`AGENT`] alone.
const ANSWER_FIELDS: [&str; 2] = [ANSWER, ANSWER_ATTEMPTS];
/// The fields of agents that report.
const REPORT_FIELDS: [&str; 2] = [REASONING, REPORTS_TO_SUPERVISOR];
/// The fields of a [`TODO_GRAPH`] alone.
const TODO_FIELDS: [&str; 2] = [TODO_CHECK, TODO_REFUSAL];

/// A kind with its article.
pub(crate) fn one(kind: &str) -> String {
    format!("{} `{kind}`", if kind == AGENT { "an" } else { "a" })
}

/// The kinds that have a field.
pub(crate) fn kinds_with(field: &str) -> Vec<&'static str> {
    KINDS.iter().copied().filter(|kind| fields(kind).contains(&field)).collect()
}

/// The fields of a kind.
pub(crate) fn fields(kind: &str) -> Vec<&'static str> {
    let own: [&[&str]; 3] = match kind {
        GRAPH => [&GRAPH_FIELDS, &[], &[]],
        SIMPLE_GRAPH => [&SIMPLE_FIELDS, &[], &[]],
        AGENT => [&AGENT_FIELDS, &ANSWER_FIELDS, &[]],
        TODO_GRAPH => [&AGENT_FIELDS, &REPORT_FIELDS, &TODO_FIELDS],
        _ => [&AGENT_FIELDS, &REPORT_FIELDS, &[]],
    };
    own.concat().into_iter().chain(COMMON_FIELDS).collect()
}

/// Words of other frameworks, with what is written here instead.
pub(crate) const FOREIGN: &[(&str, &str)] = &[
    ("prompt", "what the model is told to be is `system: \"…\"`"),
    ("system_prompt", "what the model is told to be is `system: \"…\"`"),
    ("instructions", "what the model is told to be is `system: \"…\"`"),
    ("response_format", "the channel that takes the answer is `answer: channel`; its type is the format"),
    ("output_type", "the channel that takes the answer is `answer: channel`; its type is the format"),
    ("result_type", "the channel that takes the answer is `answer: channel`; its type is the format"),
    ("output_schema", "the view that a run results in is `output: View`"),
    ("input_schema", "the view that a run is started with is `input: View`"),
    ("state_schema", "the state stands in the head: `Name<State>`"),
    ("state", "the state stands in the head: `Name<State>`"),
    ("context_schema", "the context stands in the head: `Name<State, Context>`"),
    ("deps_type", "the context stands in the head: `Name<State, Context>`"),
    ("context", "the context stands in the head: `Name<State, Context>`"),
    ("llm", "the model is `model: |context| &context.model`, or that of the context"),
    ("temperature", "how the model answers is `options: ModelOptions { … }`"),
    ("model_settings", "how the model answers is `options: ModelOptions { … }`"),
    ("max_turns", "how often the model is asked is `max_iterations`"),
    ("recursion_limit", "a run has it: `Config::recursion_limit`; how often the model is asked is `max_iterations`"),
    ("handoffs", "agents that the model can call are `subagents: […]`"),
    ("agents", "agents that the model can call are `subagents: […]`"),
    ("middleware", "what stands around its calls of models and tools is `layers: […]`"),
    ("middlewares", "what stands around its calls of models and tools is `layers: […]`"),
    ("guardrails", "what stands around its calls of models and tools is `layers: […]`: a `Guard(function)`"),
    ("input_guardrails", "what stands around its calls of models and tools is `layers: […]`"),
    ("output_guardrails", "what stands around its calls of models and tools is `layers: […]`"),
    ("callbacks", "what stands around its calls of models and tools is `layers: […]`"),
    ("hooks", "what stands around its calls of models and tools is `layers: […]`"),
    ("fallbacks", "another model is a layer: `layers: [Fallback(|context| &context.cheap)]`"),
    ("retries", "how often a model is asked again is a layer: `layers: [Retry { attempts: 3 }]`"),
    ("checkpointer", "the compiled graph has it: `compile().checkpointer(…)`"),
    ("store", "the compiled graph has it: `compile().store(…)`"),
];

/// The words before the braces of a [`POLICY`].
pub(crate) const POLICIES: &[&str] = &["Policy", "SubagentPolicy"];
/// Option of a policy: whether the subagent starts with an empty conversation.
pub(crate) const CLEAR_MESSAGES: &str = "clear_messages";
/// Option of a policy: whether the subagent sees what was said to the operator.
pub(crate) const PRESERVE_CHAT: &str = "preserve_chat_with_operator";
/// Option of a policy: whether its iterations are counted from 0.
pub(crate) const RESET_ITERATION: &str = "reset_iteration";
/// Option of a policy: the channels that the supervisor takes over.
pub(crate) const MERGE_FIELDS: &str = "merge_fields";
/// Option of a policy: the channels of which it takes over nothing.
pub(crate) const DISCARD_FIELDS: &str = "discard_fields";
/// The options of a policy.
pub(crate) const POLICY_OPTIONS: &[&str] =
    &[CLEAR_MESSAGES, PRESERVE_CHAT, RESET_ITERATION, MAX_ITERATIONS, MERGE_FIELDS, DISCARD_FIELDS];

/// Option of a node: how often it is tried.
pub(crate) const RETRY: &str = "retry";
/// Option of a node: how long an attempt may take.
pub(crate) const TIMEOUT: &str = "timeout";
/// Option of a node: how long it may give no sign of life.
pub(crate) const IDLE_TIMEOUT: &str = "idle_timeout";
/// Option of a node: how long its result is used again.
pub(crate) const CACHE: &str = "cache";
/// The struct literal that says what tells inputs apart, beside how long a result is used again.
pub(crate) const CACHE_POLICY: &str = "Cache";
/// Of a cache: how long a result is used again.
pub(crate) const TTL: &str = "ttl";
/// Of a cache: the function that says what tells two inputs apart.
pub(crate) const KEY: &str = "key";
/// The fields of a [`CACHE_POLICY`].
pub(crate) const CACHE_FIELDS: &[&str] = &[TTL, KEY];
/// Option of a node: it waits until nothing else is left to run.
pub(crate) const DEFER: &str = "defer";
/// Option of a node: who is called when it has failed.
pub(crate) const ON_ERROR: &str = "on_error";
/// Option of a node: the channels it always writes.
pub(crate) const WRITES: &str = "writes";
/// Option of a node: the targets that its commands may choose.
pub(crate) const GOTO: &str = "goto";
/// Option of a node that runs a graph: which checkpoints that has.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// The values of [`CHECKPOINTS`], with the variant that each stands for.
pub(crate) const CHECKPOINTS_VALUES: &[(&str, &str)] =
    &[("per_call", "PerCall"), ("per_thread", PER_THREAD), ("none", "None")];

/// The one of them that keeps a graph's state for the whole thread.
pub(crate) const PER_THREAD: &str = "PerThread";
/// The options of a node.
pub(crate) const NODE_OPTIONS: &[&str] =
    &[RETRY, TIMEOUT, IDLE_TIMEOUT, CACHE, DEFER, ON_ERROR, WRITES, GOTO, CHECKPOINTS, TOOL_ERRORS];

/// The struct literal that spells out a [`RETRY`].
pub(crate) const RETRY_POLICY: &str = "Retry";
/// Of a retry policy: how often the node is tried.
pub(crate) const ATTEMPTS: &str = "attempts";
/// The fields of a retry policy, with whether each is a duration.
pub(crate) const RETRY_FIELDS: &[(&str, bool)] =
    &[(ATTEMPTS, false), ("interval", true), ("factor", false), ("cap", true), ("jitter", false)];

/// The units of durations, with the seconds (numerator, denominator) that each stands for.
pub(crate) const UNITS: &[(&str, u32, u32)] = &[("ms", 1, 1000), ("s", 1, 1), ("m", 60, 1), ("h", 3600, 1)];
