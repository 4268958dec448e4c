//! The words in the options of a model and in the layers of an agent.

use super::RETRY_POLICY;

/// The word before the braces of [`OPTIONS`](super::OPTIONS).
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

/// How a layer of the library is written in [`LAYERS`](super::LAYERS).
#[derive(Clone, Copy)]
pub(crate) enum LayerForm {
    /// With fields, the setters of its type: `Limit { model_calls: 50 }`. None is known of one whose list is empty.
    Fields(&'static [&'static str]),
    /// As the policy of a [`RETRY`](super::RETRY).
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
