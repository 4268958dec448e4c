//! The fields and options of `graph!`, for editors: each list of words in braces is a struct, and each word is one of
//! its fields. An editor shows the docs of a field where the mouse rests on the word. The program never constructs the
//! structs.

#![allow(non_upper_case_globals)]

/// Stands for a value of any type in generated code that never runs. Aborts the process if it is called.
pub fn any<T>() -> T {
    std::process::abort()
}

/// Declares a struct with these words as fields, and with the fields of all kinds of graphs.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $word:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name {
            $($(#[$doc])* pub $word: (),)*
        }
    };
    ($(#[$about:meta])* graph $name:ident { $($own:tt)* }) => {
        words! {
            $(#[$about])*
            $name {
                $($own)*
                /// The view that a run takes: `input: View`. Defaults to the state or an update of it.
                /// `input: untrusted` marks the input messages as text that an attacker may have written.
                input,
                /// Accepts a graph that reads private data, reads untrusted text and sends data without approval:
                /// `allow: trifecta("reason")`.
                allow,
                /// The view that a run returns: `output: View`. Defaults to the state.
                output,
                /// Nodes before which a run stops: `interrupt_before: [node]`. Only a graph with a checkpointer can
                /// continue the run.
                interrupt_before,
                /// Nodes after which a run stops: `interrupt_after: [node]`. Only a graph with a checkpointer can
                /// continue the run.
                interrupt_after,
                /// The name of the graph. Defaults to the name of its type in snake case.
                name,
                /// The purpose of the graph, which supervisors read. Defaults to its doc comment.
                description,
                /// The options of the graph as a subagent: `policy: Policy { merge_fields: [artifact] }`.
                policy,
                /// The type of the arguments with which a supervisor calls the graph.
                args,
                /// A function that runs with each new input of a root graph, and at the start of each call of another
                /// graph.
                on_entry,
                /// A function that runs when the run of a root graph finishes, and when a call of another graph ends.
                on_exit,
                /// The channel that receives messages from outside.
                inbox,
                /// The questions that the graph and all graphs within it ask: `asks: [Pay, Pick]`. The macro generates
                /// an enum of these questions.
                asks,
            }
        }
    };
    ($(#[$about:meta])* agent $name:ident { $($own:tt)* }) => {
        words! {
            $(#[$about])*
            graph $name {
                /// The system prompt: a text or a function of the state.
                system,
                /// The model: `|context| &context.smart`. Defaults to the model of the context.
                model,
                /// The options of the model: `options: ModelOptions { temperature: 0.2 }`.
                options,
                /// The layers around calls of models and tools: `layers: [Limit { model_calls: 50 }]`.
                layers,
                /// The tools that the model can call: `tools: [lookup, |desk| &desk.crm]`.
                tools,
                /// Lets the model search if there are many tools: `search: true` or `search: ToolSearch { above: 20 }`.
                search,
                /// The handling of failed tools: `ToolErrors::Tell` or `ToolErrors::Raise`, the default.
                tool_errors,
                /// The maximum number of model calls in a turn. Defaults to 50.
                max_iterations,
                /// Number of times in a row that a call may return the same result. An `Agent` defaults to 3.
                max_repeats,
                /// A second channel to which the agent copies its report.
                report_into,
                /// Graphs that run before the first model call: `front: [Normalise]`.
                front,
                /// Graphs that run after the report.
                back,
                /// Graphs that the model can call: `subagents: [Worker { merge_fields: [artifact] }]`.
                subagents,
                /// Allows parallel calls of subagents: `true` or `false`, the default.
                parallel_subagents,
                $($own)*
            }
        }
    };
}

words! {
    /// A graph of nodes and edges.
    graph Graph {
        /// The nodes: `nodes: [fetch { retry: 3 }, other = path::of::function]`.
        nodes,
        /// The edges: `edges: [START >> fetch >> match verdict { Verdict::Done => END, Verdict::Redo => fetch }]`.
        edges,
    }
}
words! {
    /// A graph of one node.
    graph SimpleGraph {
        /// The node.
        compute,
    }
}
words! {
    /// An agent that answers, in text or with a value.
    agent Agent {
        /// The channel for the answer. Its type is the type of the answer.
        answer,
        /// The number of unusable replies in a turn after which the agent fails. Defaults to 3.
        attempts,
    }
}
words! {
    /// An agent that reports to its supervisor.
    agent ReactGraph {
        /// The user message at the end of each model call.
        reasoning,
        /// Set to `false` for an agent without a supervisor.
        reports_to_supervisor,
    }
}
words! {
    /// An agent that keeps a to-do list and reports to its supervisor.
    agent TodoGraph {
        /// The user message at the end of each model call.
        reasoning,
        /// Set to `false` for an agent without a supervisor.
        reports_to_supervisor,
        /// A function of the state that allows the report.
        todo_check,
        /// The message for the model if the report is not allowed.
        todo_refusal,
    }
}
words! {
    /// The options of a node.
    Node {
        /// The attempts of the node: `retry: 3`, `retry: Retry { attempts: 5, interval: 100ms }`.
        retry,
        /// The time limit of each attempt: `timeout: 5s`.
        timeout,
        /// The time limit between two heartbeats or events: `idle_timeout: 2s`.
        idle_timeout,
        /// The time for which a result is reused for equal inputs: `cache: 60s`.
        cache,
        /// Delays the node until no other task is left. Takes no value.
        defer,
        /// The function that runs if the last attempt of the node fails.
        on_error,
        /// The channels that the node always writes: `writes: [channel]`.
        writes,
        /// The nodes that the node's commands may go to: `goto: [node, END]`.
        goto,
        /// The checkpoints of the graph at this node: `per_call`, `per_thread` or `none`.
        checkpoints,
        /// The handling of failed tools at a `tools![…]` node.
        tool_errors,
    }
}
words! {
    /// The options of a policy.
    Policy {
        /// Starts the subagent with an empty conversation.
        clear_messages,
        /// Passes the conversation with the operator to the subagent.
        preserve_chat_with_operator,
        /// Counts the iterations of the subagent from 0.
        reset_iteration,
        /// The maximum number of model calls.
        max_iterations,
        /// Runs the subagent in the background: `background: true`.
        background,
        /// Runs the subagent in the background, also after the supervisor's turn: `detached: true`.
        detached,
        /// The channels that the supervisor receives from the subagent.
        merge_fields,
        /// The channels that the supervisor does not receive from the subagent.
        discard_fields,
    }
}
words! {
    /// The options of a model, which its provider interprets.
    ModelOptions {
        /// The randomness of the reply. 0 is the least random.
        temperature,
        /// The share of likely tokens to sample from, from 0 to 1.
        top_p,
        /// The maximum number of tokens of a reply.
        max_tokens,
        /// The effort of reasoning: `Effort::High`.
        reasoning,
        /// The strings at which a reply ends.
        stop,
        /// The tools that the model may or must call.
        tool_choice,
        /// Allows several tool calls in one reply.
        parallel_calls,
        /// The seed of the randomness.
        seed,
        /// The time for which the provider should cache the prompt.
        cache,
        /// Provider-specific options, as JSON.
        extra,
    }
}
words! {
    /// The search for tools.
    ToolSearch {
        /// The number of tools up to which all of them are sent. Defaults to 30.
        above,
        /// The maximum number of tools that a search returns. Defaults to 5.
        results,
    }
}
words! {
    /// The attempts of a node and the waits between them.
    Retry {
        /// The number of attempts, including the first.
        attempts,
        /// The wait after the first attempt.
        interval,
        /// The factor by which each wait grows.
        factor,
        /// The longest wait, before jitter is added.
        cap,
        /// The largest random addition, as a fraction of the wait.
        jitter,
    }
}

words! {
    /// The conditions for reusing a result.
    Cache {
        /// The time for which a result is reused.
        ttl,
        /// The function that returns the cache key of a task.
        key,
    }
}

/// The kinds of graphs.
pub mod kinds {
    pub use super::{Agent, Graph, ReactGraph, SimpleGraph, TodoGraph};
}

/// The name before the braces of a policy, for editors.
pub mod policy {
    pub use super::Policy;
}

/// The values of the option `checkpoints` of a node that runs a graph.
pub mod checkpoints {
    /// Each call of the graph starts with a new state.
    pub const per_call: () = ();
    /// The graph keeps its state from call to call.
    pub const per_thread: () = ();
    /// The graph has no checkpoints.
    pub const none: () = ();
}
