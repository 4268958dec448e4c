//! The words of `graph!`, for editors: each list of words that can stand in braces is a struct, each word a field. What a field
//! is for is shown where the mouse rests on the word. Nothing is ever made of these types.

#![allow(non_upper_case_globals)]

/// A value of any type, in code that is never compiled.
pub fn any<T>() -> T {
    std::process::abort()
}

/// Words in braces: a struct whose fields they are, with what all kinds of graphs have.
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
                /// The view that a run is started with: `input: View`. Unless given, the whole state or an update.
                input,
                /// The view that a run results in: `output: View`. Unless given, the whole state.
                output,
                /// Nodes before which a run stops: `interrupt_before: [node]`. Durable threads only.
                interrupt_before,
                /// Nodes after which a run stops: `interrupt_after: [node]`. Durable threads only.
                interrupt_after,
                /// The graph's name, which is that of its type in snake case unless given.
                name,
                /// What the graph is for, which is its doc comment unless given. Supervisors read it.
                description,
                /// What crosses the boundary when the graph is a subagent: `policy: Policy { merge_fields: [artifact] }`.
                policy,
                /// The type of the arguments with which a supervisor calls the graph.
                args,
                /// A function that runs when the graph is entered as a subagent.
                on_entry,
                /// A function that runs when the graph is left as a subagent.
                on_exit,
                /// The channel to which messages from outside are written.
                inbox,
            }
        }
    };
    ($(#[$about:meta])* agent $name:ident { $($own:tt)* }) => {
        words! {
            $(#[$about])*
            graph $name {
                /// What the model is told to be: a text.
                system,
                /// Which model of the context is asked: `|context| &context.smart`. Unless given, that of the context.
                model,
                /// How the model answers: `options: ModelOptions { temperature: 0.2 }`.
                options,
                /// What stands around the calls of models and tools: `layers: [Limit { model_calls: 50 }]`.
                layers,
                /// What the model can call: `tools: [lookup, |desk| &desk.crm]`.
                tools,
                /// What becomes of a tool that fails: `ToolErrors::Raise`, unless given, or `ToolErrors::Tell`.
                tool_errors,
                /// How often the model may be asked in a run, 50 times unless given.
                max_iterations,
                /// Number of times in a row that a call may return the same result. An `Agent` defaults to 3.
                max_repeats,
                /// Another channel that the report is written to.
                report_into,
                /// Graphs that run before the model is asked: `front: [Normalise]`.
                front,
                /// Graphs that run after the report.
                back,
                /// Graphs that the model can call: `subagents: [Worker { merge_fields: [artifact] }]`.
                subagents,
                /// Whether the model may call several subagents at once: `true` or `false`.
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
        /// The channel that takes the answer; its type says what an answer is.
        answer,
        /// How many answers of the model may be of no use before the run fails.
        attempts,
    }
}
words! {
    /// An agent that reports to its supervisor.
    agent ReactGraph {
        /// What the model is asked each time.
        reasoning,
        /// Whether it has a supervisor to report to.
        reports_to_supervisor,
    }
}
words! {
    /// An agent that keeps a list of what is to be done, and reports.
    agent TodoGraph {
        /// What the model is asked each time.
        reasoning,
        /// Whether it has a supervisor to report to.
        reports_to_supervisor,
        /// When it may report.
        todo_check,
        /// What its model is told otherwise.
        todo_refusal,
    }
}
words! {
    /// The options of a node.
    Node {
        /// How often the node is tried: `retry: 3`, `retry: Retry { attempts: 5, interval: 100ms }`.
        retry,
        /// How long an attempt may take: `timeout: 5s`.
        timeout,
        /// How long an attempt may give no sign of life: `idle_timeout: 2s`.
        idle_timeout,
        /// How long a result is used again for an equal input: `cache: 60s`.
        cache,
        /// It waits until nothing else is left to run. Without a value.
        defer,
        /// The function that takes over when the node has failed for good.
        on_error,
        /// What the node always writes: `writes: [channel]`.
        writes,
        /// What its commands may choose: `goto: [node, END]`.
        goto,
        /// Of a node that runs a graph: `per_call`, `per_thread` or `none`.
        checkpoints,
        /// Of a node `tools![…]`: what becomes of a tool that fails.
        tool_errors,
    }
}
words! {
    /// The options of a policy.
    Policy {
        /// Whether the subagent starts with an empty conversation.
        clear_messages,
        /// Whether it sees what was said to the operator.
        preserve_chat_with_operator,
        /// Whether its iterations are counted from 0.
        reset_iteration,
        /// How often its model may be asked.
        max_iterations,
        /// The channels that the supervisor takes over.
        merge_fields,
        /// The channels of which it takes over nothing.
        discard_fields,
    }
}
words! {
    /// How a model answers.
    ModelOptions {
        /// How much chance is in the answer, from 0.
        temperature,
        /// How much of the likely words is considered, up to 1.
        top_p,
        /// How long an answer may be.
        max_tokens,
        /// How hard the model thinks before it answers: `Effort::High`.
        reasoning,
        /// Texts at which an answer ends.
        stop,
        /// Whether it must call a tool, and which.
        tool_choice,
        /// Whether it may call several tools at once.
        parallel_calls,
        /// The number that the chance starts from.
        seed,
        /// What the provider keeps of the prompt.
        cache,
        /// Options of the provider, as JSON.
        extra,
    }
}
words! {
    /// How often and when a node is tried again.
    Retry {
        /// The number of attempts, the first included.
        attempts,
        /// The first wait.
        interval,
        /// By how much each wait is longer than the one before.
        factor,
        /// The longest wait, before jitter.
        cap,
        /// The greatest random addition, as a fraction of the wait.
        jitter,
    }
}

words! {
    /// How long and for which input a result is used again.
    Cache {
        /// How long a result is used again.
        ttl,
        /// The function that says what two equal inputs have in common.
        key,
    }
}

/// The kinds of graphs.
pub mod kinds {
    pub use super::{Agent, Graph, ReactGraph, SimpleGraph, TodoGraph};
}

/// What stands before the braces of a policy.
pub mod policy {
    pub use super::Policy;
}

/// The checkpoints of a graph that is a node.
pub mod checkpoints {
    /// Each call of the graph starts anew.
    pub const per_call: () = ();
    /// The graph keeps its state from call to call.
    pub const per_thread: () = ();
    /// The graph stores nothing of its own.
    pub const none: () = ();
}
