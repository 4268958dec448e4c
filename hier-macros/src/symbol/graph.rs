//! The words of `graph!`.

use super::{ARGS, CRATE};

pub(crate) const START: &str = "START";
pub(crate) const END: &str = "END";

/// The variable of the state in the expressions of routes.
pub(crate) const STATE_VALUE: &str = "state";

// Kinds.
pub(crate) const GRAPH: &str = "Graph";
pub(crate) const SIMPLE_GRAPH: &str = "SimpleGraph";
pub(crate) const AGENT: &str = "Agent";
pub(crate) const REACT_GRAPH: &str = "ReactGraph";
pub(crate) const TODO_GRAPH: &str = "TodoGraph";
pub(crate) const KINDS: &[&str] = &[GRAPH, SIMPLE_GRAPH, AGENT, REACT_GRAPH, TODO_GRAPH];

/// Graphs of other frameworks, each with its kind.
pub(crate) const FOREIGN_KINDS: &[(&str, &str)] = &[
    ("StateGraph", GRAPH),
    ("MessageGraph", GRAPH),
    ("create_agent", AGENT),
    ("create_react_agent", AGENT),
    ("create_supervisor", AGENT),
    ("ReactAgent", AGENT),
    ("Supervisor", AGENT),
];

// Fields.
pub(crate) const NODES: &str = "nodes";
pub(crate) const EDGES: &str = "edges";
pub(crate) const COMPUTE: &str = "compute";
pub(crate) const INPUT: &str = "input";
pub(crate) const OUTPUT: &str = "output";
pub(crate) const INTERRUPT_BEFORE: &str = "interrupt_before";
pub(crate) const INTERRUPT_AFTER: &str = "interrupt_after";
pub(crate) const NAME: &str = "name";
pub(crate) const DESCRIPTION: &str = "description";
pub(crate) const POLICY: &str = "policy";
pub(crate) const ON_ENTRY: &str = "on_entry";
pub(crate) const INBOX: &str = "inbox";
pub(crate) const ASKS: &str = "asks";
pub(crate) const ON_EXIT: &str = "on_exit";
pub(crate) const SYSTEM: &str = "system";
pub(crate) const MODEL: &str = "model";
pub(crate) const OPTIONS: &str = "options";
pub(crate) const LAYERS: &str = "layers";
pub(crate) const ANSWER: &str = "answer";
pub(crate) const ANSWER_ATTEMPTS: &str = "attempts";
pub(crate) const REASONING: &str = "reasoning";
pub(crate) const TOOLS: &str = "tools";
pub(crate) const TOOL_ERRORS: &str = "tool_errors";
pub(crate) const SEARCH: &str = "search";
pub(crate) const MAX_ITERATIONS: &str = "max_iterations";
pub(crate) const MAX_REPEATS: &str = "max_repeats";
pub(crate) const REPORTS_TO_SUPERVISOR: &str = "reports_to_supervisor";
pub(crate) const REPORT_INTO: &str = "report_into";
pub(crate) const FRONT: &str = "front";
pub(crate) const BACK: &str = "back";
pub(crate) const SUBAGENTS: &str = "subagents";
pub(crate) const PARALLEL_SUBAGENTS: &str = "parallel_subagents";
pub(crate) const TODO_CHECK: &str = "todo_check";
pub(crate) const TODO_REFUSAL: &str = "todo_refusal";

/// Accepts a graph that could leak: `allow: trifecta("reason")`.
pub(crate) const ALLOW: &str = "allow";
pub(crate) const TRIFECTA: &str = "trifecta";

// Options of a toolset.
pub(crate) const SET_LABELS: &str = "labels";

const COMMON_FIELDS: [&str; 14] = [
    INPUT,
    ALLOW,
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
    ASKS,
    CRATE,
];
const GRAPH_FIELDS: [&str; 2] = [NODES, EDGES];
const SIMPLE_FIELDS: [&str; 1] = [COMPUTE];
const AGENT_FIELDS: [&str; 14] = [
    SYSTEM,
    MODEL,
    OPTIONS,
    LAYERS,
    TOOLS,
    SEARCH,
    TOOL_ERRORS,
    MAX_ITERATIONS,
    MAX_REPEATS,
    REPORT_INTO,
    FRONT,
    BACK,
    SUBAGENTS,
    PARALLEL_SUBAGENTS,
];
const ANSWER_FIELDS: [&str; 2] = [ANSWER, ANSWER_ATTEMPTS];
const REPORT_FIELDS: [&str; 2] = [REASONING, REPORTS_TO_SUPERVISOR];
const TODO_FIELDS: [&str; 2] = [TODO_CHECK, TODO_REFUSAL];

pub(crate) fn with_article(kind: &str) -> String {
    format!("{} `{kind}`", if kind == AGENT { "an" } else { "a" })
}

pub(crate) fn kinds_with(field: &str) -> Vec<&'static str> {
    KINDS.iter().copied().filter(|kind| fields(kind).contains(&field)).collect()
}

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

/// Words of other frameworks, each with the replacement.
pub(crate) const FOREIGN: &[(&str, &str)] = &[
    ("prompt", "write `system: \"…\"`"),
    ("system_prompt", "write `system: \"…\"`"),
    ("instructions", "write `system: \"…\"`"),
    ("response_format", "write `answer: channel`; the type of the channel is the format"),
    ("output_type", "write `answer: channel`; the type of the channel is the format"),
    ("result_type", "write `answer: channel`; the type of the channel is the format"),
    ("output_schema", "write `output: View`"),
    ("input_schema", "write `input: View`"),
    ("state_schema", "write the state in the head, `Name<State>`"),
    ("state", "write the state in the head, `Name<State>`"),
    ("context_schema", "write the context in the head, `Name<State, Context>`"),
    ("deps_type", "write the context in the head, `Name<State, Context>`"),
    ("context", "write the context in the head, `Name<State, Context>`"),
    ("llm", "write `model: |context| &context.model`, or use the model of the context"),
    ("temperature", "write `options: ModelOptions { … }`"),
    ("model_settings", "write `options: ModelOptions { … }`"),
    ("max_turns", "write `max_iterations`"),
    ("tool_search", "write `search: true`"),
    ("recursion_limit", "set `recursion_limit` on the run, or limit the calls of the model with `max_iterations`"),
    ("handoffs", "write `subagents: […]`"),
    ("agents", "write `subagents: […]`"),
    ("middleware", "write `layers: […]`"),
    ("middlewares", "write `layers: […]`"),
    ("guardrails", "write `layers: [Guard(function)]`"),
    ("input_guardrails", "write `layers: [Guard(function)]`"),
    ("output_guardrails", "write `layers: [Guard(function)]`"),
    ("callbacks", "write `layers: […]`"),
    ("hooks", "write `layers: […]`"),
    ("fallbacks", "write `layers: [Fallback(|context| &context.cheap)]`"),
    ("retries", "write `layers: [Retry { attempts: 3 }]`"),
    ("checkpointer", "set it on the compiled graph, `compile().checkpointer(…)`"),
    ("store", "set it on the compiled graph, `compile().store(…)`"),
];

/// Fields of other frameworks that are edges, each with its replacement. Agents have no edges.
pub(crate) const FOREIGN_EDGES: &[(&str, &str)] = &[
    ("entry_point", "write the edge `START >> node`"),
    ("finish_point", "write the edge `node >> END`"),
    ("conditional_edges", "write a route in `edges`, such as `node >> match route { … }`"),
];

/// The type of the settings of the search for tools, and its fields.
pub(crate) const TOOL_SEARCH: &str = "ToolSearch";
pub(crate) const TOOL_SEARCH_FIELDS: &[&str] = &["above", SEARCH_RESULTS];
pub(crate) const SEARCH_RESULTS: &str = "results";

/// The words before the braces of a policy.
pub(crate) const POLICIES: &[&str] = &["Policy", "SubagentPolicy"];

// Options of a policy.
pub(crate) const CLEAR_MESSAGES: &str = "clear_messages";
pub(crate) const PRESERVE_CHAT: &str = "preserve_chat_with_operator";
pub(crate) const RESET_ITERATION: &str = "reset_iteration";
pub(crate) const BACKGROUND: &str = "background";
pub(crate) const DETACHED: &str = "detached";
pub(crate) const MERGE_FIELDS: &str = "merge_fields";
pub(crate) const DISCARD_FIELDS: &str = "discard_fields";
pub(crate) const POLICY_OPTIONS: &[&str] = &[
    CLEAR_MESSAGES,
    PRESERVE_CHAT,
    RESET_ITERATION,
    MAX_ITERATIONS,
    BACKGROUND,
    DETACHED,
    MERGE_FIELDS,
    DISCARD_FIELDS,
];

// Options of a node.
pub(crate) const RETRY: &str = "retry";
pub(crate) const TIMEOUT: &str = "timeout";
pub(crate) const IDLE_TIMEOUT: &str = "idle_timeout";
pub(crate) const CACHE: &str = "cache";
pub(crate) const CACHE_POLICY: &str = "Cache";

// Fields of a cache policy.
pub(crate) const TTL: &str = "ttl";
pub(crate) const KEY: &str = "key";
pub(crate) const CACHE_FIELDS: &[&str] = &[TTL, KEY];
pub(crate) const DEFER: &str = "defer";
pub(crate) const ON_ERROR: &str = "on_error";
pub(crate) const WRITES: &str = "writes";
pub(crate) const GOTO: &str = "goto";
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// The values of [`CHECKPOINTS`], each with its variant.
pub(crate) const CHECKPOINTS_VALUES: &[(&str, &str)] =
    &[("per_call", "PerCall"), ("per_thread", PER_THREAD), ("none", "None")];

pub(crate) const PER_THREAD: &str = "PerThread";
pub(crate) const NODE_OPTIONS: &[&str] =
    &[RETRY, TIMEOUT, IDLE_TIMEOUT, CACHE, DEFER, ON_ERROR, WRITES, GOTO, CHECKPOINTS, TOOL_ERRORS];

/// Options of nodes in other frameworks, each with its replacement.
pub(crate) const FOREIGN_NODE_OPTIONS: &[(&str, &str)] = &[
    ("retry_policy", RETRY),
    ("max_attempts", RETRY),
    ("cache_policy", CACHE),
    ("error_handler", ON_ERROR),
    ("destinations", GOTO),
    ("ends", GOTO),
];

// A retry policy.
pub(crate) const RETRY_POLICY: &str = "Retry";
pub(crate) const ATTEMPTS: &str = "attempts";

/// The fields of a retry policy, each with true if its value is a duration.
pub(crate) const RETRY_FIELDS: &[(&str, bool)] =
    &[(ATTEMPTS, false), ("interval", true), ("factor", false), ("cap", true), ("jitter", false)];

/// The units of durations, each with its seconds as numerator and denominator.
pub(crate) const UNITS: &[(&str, u32, u32)] = &[("ms", 1, 1000), ("s", 1, 1), ("m", 60, 1), ("h", 3600, 1)];
