//! Every word of the macros' languages, once.

// --- #[derive(State)] -------------------------------------------------------------------------------------------------

/// Attribute of a field: what merges the writes of a step.
pub(crate) const REDUCER: &str = "reducer";
/// Attribute of a field: what kind of channel it is.
pub(crate) const CHANNEL: &str = "channel";
/// Attribute of a field: `flatten`, `rename`.
pub(crate) const STATE: &str = "state";

/// `#[reducer(with = path)]`: a reducer of the user's.
pub(crate) const WITH: &str = "with";
/// `#[reducer(upsert)]`: another name of [`BY_ID`].
pub(crate) const UPSERT: &str = "upsert";
/// `#[reducer(by_id)]`.
pub(crate) const BY_ID: &str = "by_id";
/// What can stand in `#[reducer(…)]`: functions of `hier_core::reducer::builtin`, an alias of one, and `with = path`.
pub(crate) const REDUCERS: &[&str] =
    &["append", "extend", "sum", "product", "max", "min", "any", "all", BY_ID, UPSERT, "last", "messages", WITH];

/// `#[channel(ephemeral)]`: gone when the next step has ended.
pub(crate) const EPHEMERAL: &str = "ephemeral";
/// `#[channel(untracked)]`: never persisted.
pub(crate) const UNTRACKED: &str = "untracked";
/// `#[channel(topic)]`: collects the values of one step.
pub(crate) const TOPIC: &str = "topic";
/// `#[channel(topic(accumulate))]`: collects values for ever.
pub(crate) const ACCUMULATE: &str = "accumulate";
/// `#[channel(delta)]`: savers store what was added.
pub(crate) const DELTA: &str = "delta";
/// The words of `#[channel(…)]`.
pub(crate) const CHANNEL_KINDS: &[&str] = &[EPHEMERAL, UNTRACKED, TOPIC, DELTA];

/// `#[state(flatten)]`: the channels of the field's type become channels of this state.
pub(crate) const FLATTEN: &str = "flatten";
/// `#[state(rename = "name")]`: the channel's name, where it is not the field's.
pub(crate) const RENAME: &str = "rename";
/// The words of `#[state(…)]`.
pub(crate) const STATE_OPTIONS: &[&str] = &[FLATTEN, RENAME];

/// The number of a state's version.
pub(crate) const VERSION: &str = "version";
/// The functions that bring what an older version stored up to date.
pub(crate) const MIGRATE: &str = "migrate";
/// Where hier is, if not where the macros find it: of all macros.
pub(crate) const CRATE: &str = "crate";
/// The words of `#[state(…)]` on the struct.
pub(crate) const STRUCT_OPTIONS: &[&str] = &[VERSION, MIGRATE, CRATE];

/// The managed types: a field whose type's path ends in one of these is written by the engine. With each, the method
/// of `Steps` that makes its value.
pub(crate) const MANAGED: &[(&str, &str)] = &[("RemainingSteps", "remaining_steps"), ("IsLastStep", "is_last_step")];

/// Types of channels that the engine alone writes: they have no setter, and keys that cannot be written.
pub(crate) const INTERNAL: &[&str] = &["SubagentStack"];

/// Types whose setter takes the type itself, so that a literal needs no suffix.
pub(crate) const PRIMITIVES: &[&str] = &[
    "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize", "f32", "f64", "bool",
    "char",
];

/// The reducer of conversations, and the name of the channel that is the state's conversation if there are several.
pub(crate) const MESSAGES: &str = "messages";

/// Types of which the setter takes a `&str` for a `String`, if they are of `String`.
pub(crate) const TEXTS: &[&str] = &["Option", "Vec"];

// --- #[derive(View)] --------------------------------------------------------------------------------------------------

/// Attribute of a view: `of = State`.
pub(crate) const VIEW: &str = "view";
/// `#[view(of = State)]`: the state that is viewed.
pub(crate) const OF: &str = "of";

// --- graph! -----------------------------------------------------------------------------------------------------------

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
const AGENT_FIELDS: [&str; 12] = [
    SYSTEM,
    MODEL,
    OPTIONS,
    LAYERS,
    TOOLS,
    TOOL_ERRORS,
    MAX_ITERATIONS,
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

/// The word before the braces of [`OPTIONS`].
pub(crate) const MODEL_OPTIONS: &str = "ModelOptions";
/// What can stand in them: the setters of `ModelOptions`.
pub(crate) const MODEL_OPTION_FIELDS: &[&str] = &[
    "temperature",
    "top_p",
    "max_tokens",
    "reasoning",
    "stop",
    "tool_choice",
    "parallel_calls",
    "seed",
    "cache",
    "extra",
];

/// How a layer of the library is written in [`LAYERS`].
#[derive(Clone, Copy)]
pub(crate) enum LayerForm {
    /// With fields, the setters of its type: `Limit { model_calls: 50 }`. None is known of one whose list is empty.
    Fields(&'static [&'static str]),
    /// As the policy of a [`RETRY`].
    Retry,
    /// With what it is made of: `Redact(Emails)`. The rest says what that is, and an example.
    Made(Infer, &'static str, &'static str),
    /// With another layer.
    Wrapper,
}

/// What a closure in a layer is a function of, which the compiler could not find out itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Infer {
    Nothing,
    Context,
    State,
}

/// The layers of the library.
pub(crate) const READY_LAYERS: &[(&str, LayerForm)] = &[
    ("Compact", LayerForm::Fields(&[])),
    ("Limit", LayerForm::Fields(&["model_calls", "tool_calls", "tokens"])),
    (RETRY_POLICY, LayerForm::Retry),
    ("Fallback", LayerForm::Made(Infer::Context, "the model of the context to ask then", "|context| &context.cheap")),
    ("Redact", LayerForm::Made(Infer::Nothing, "what finds the secrets", "Emails")),
    ("Guard", LayerForm::Made(Infer::State, "the function that decides", "|call, state| Verdict::Allow")),
    ("Emulate", LayerForm::Made(Infer::Nothing, "the function that gives the results", "|call| Some(\"done\")")),
    ("Inherited", LayerForm::Wrapper),
];

/// Layers of other frameworks, with what is written here instead.
pub(crate) const FOREIGN_LAYERS: &[(&str, &str)] = &[
    ("ModelCallLimitMiddleware", "Limit { model_calls: 50 }"),
    ("ToolCallLimitMiddleware", "Limit { tool_calls: 50 }"),
    ("ModelFallbackMiddleware", "Fallback(|context| &context.cheap)"),
    ("ModelRetryMiddleware", "Retry { attempts: 3 }"),
    ("PIIMiddleware", "Redact(Emails)"),
    ("SummarizationMiddleware", "Compact { at: 0.8 }"),
    ("LLMToolEmulator", "Emulate(function)"),
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

// --- #[tool] ----------------------------------------------------------------------------------------------------------

/// Option of a tool: a person must approve each call.
pub(crate) const NEEDS_APPROVAL: &str = "needs_approval";
/// Option of a tool: each call is made once.
pub(crate) const STEP: &str = "step";
/// What can stand in `#[tool(…)]`.
pub(crate) const TOOL_OPTIONS: &[&str] = &[NAME, DESCRIPTION, NEEDS_APPROVAL, STEP, TIMEOUT, RETRY, CRATE];

/// Attribute of a parameter: what a node could take, and the model does not see.
pub(crate) const INJECT: &str = "inject";
/// Attribute of a parameter: a struct whose fields are the arguments.
pub(crate) const ARGS: &str = "args";
/// Attribute of a parameter: what stands for an argument that is left out.
pub(crate) const DEFAULT: &str = "default";
/// The attributes of parameters.
pub(crate) const PARAMETER_ATTRIBUTES: &[&str] = &[INJECT, ARGS, DEFAULT];
/// A doc comment.
pub(crate) const DOC: &str = "doc";
/// The attributes that the compiler takes on parameters.
pub(crate) const LINTS: &[&str] = &["allow", "cfg", "cfg_attr", "deny", "expect", "forbid", "warn"];

/// The last segments of the types that a tool is given.
pub(crate) const RUN: &str = "Run";
/// The context that all agents have, as a part of theirs.
pub(crate) const BASE_CONTEXT: &str = "BaseContext";
/// The call that a tool answers.
pub(crate) const TOOL_CALL: &str = "ToolCall";
/// The id of the call that a tool answers.
pub(crate) const TOOL_CALL_ID: &str = "ToolCallId";
/// An argument that may be left out.
pub(crate) const OPTION: &str = "Option";
/// What a tool returns that is over a state.
pub(crate) const STATEFUL_OUTPUTS: &[&str] = &["Command", "ToolOutput"];
