//! The words in the options of a model and in the layers of an agent.

use super::RETRY_POLICY;

pub(crate) const MODEL_OPTIONS: &str = "ModelOptions";
/// The setters of `ModelOptions`.
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

/// The syntax of a layer of the library.
#[derive(Clone, Copy)]
pub(crate) enum LayerForm {
    /// With fields, which are setters of its type: `Limit { model_calls: 50 }`. An empty list allows any field.
    Fields(&'static [&'static str]),
    /// Like a retry policy of a node.
    Retry,
    /// With an argument: `Redact(Emails)`. The texts describe the argument and give an example.
    Made(Infer, &'static str, &'static str),
    /// Around another layer.
    Wrapper,
}

/// The argument of a closure in a layer, which the compiler cannot infer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Infer {
    Nothing,
    Context,
    State,
}

/// The field of `Limit` with an amount of US dollars.
pub(crate) const COST: &str = "cost";

pub(crate) const READY_LAYERS: &[(&str, LayerForm)] = &[
    ("Compact", LayerForm::Fields(&[])),
    ("Limit", LayerForm::Fields(&["model_calls", "tool_calls", "tokens", COST])),
    (RETRY_POLICY, LayerForm::Retry),
    (
        "Fallback",
        LayerForm::Made(Infer::Context, "a closure that selects a model of the context", "|context| &context.cheap"),
    ),
    ("Redact", LayerForm::Made(Infer::Nothing, "a detector of secrets", "Emails")),
    ("Guard", LayerForm::Made(Infer::State, "a function that decides about a call", "|call, state| Verdict::Allow")),
    ("Emulate", LayerForm::Made(Infer::Nothing, "a function that returns results", "|call| Some(\"done\")")),
    ("Inherited", LayerForm::Wrapper),
];

/// Layers of other frameworks, each with the replacement.
pub(crate) const FOREIGN_LAYERS: &[(&str, &str)] = &[
    ("ModelCallLimitMiddleware", "Limit { model_calls: 50 }"),
    ("ToolCallLimitMiddleware", "Limit { tool_calls: 50 }"),
    ("ModelFallbackMiddleware", "Fallback(|context| &context.cheap)"),
    ("ModelRetryMiddleware", "Retry { attempts: 3 }"),
    ("PIIMiddleware", "Redact(Emails)"),
    ("SummarizationMiddleware", "Compact { at: 0.8 }"),
    ("LLMToolEmulator", "Emulate(function)"),
];
