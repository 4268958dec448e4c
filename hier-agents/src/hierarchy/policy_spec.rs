//! Policies as constants, generated and checked by `graph!`.

use std::fmt;

use crate::hierarchy::policy::SubagentPolicy;

/// A [`SubagentPolicy`] that `graph!` creates as a constant.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the options of `SubagentPolicy`
pub struct PolicySpec {
    pub clear_messages: Option<bool>,
    pub preserve_chat_with_operator: Option<bool>,
    pub reset_iteration: Option<bool>,
    pub max_iterations: Option<u32>,
    pub background: Option<bool>,
    pub detached: Option<bool>,
    pub merge_fields: Option<FieldsSpec>,
    pub discard_fields: Option<FieldsSpec>,
}

/// A list of channels in a policy that `graph!` creates.
#[derive(Clone, Copy)]
pub struct FieldsSpec {
    /// The field names, as written in `graph!`.
    pub written: &'static [&'static str],
    /// The channel names.
    pub names: fn() -> Vec<&'static str>,
    /// True if none of the channels can carry text.
    pub text_free: bool,
}

impl fmt::Debug for FieldsSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written.fmt(f)
    }
}

impl FieldsSpec {
    const NONE: Self = Self { written: &[], names: Vec::new, text_free: true };
}

/// Returns the first value that exists. `Option::or` is not a `const fn`.
macro_rules! first {
    ($a:expr, $b:expr) => {
        match $a {
            Some(value) => Some(value),
            None => $b,
        }
    };
}

impl PolicySpec {
    /// A policy in which no option is set.
    pub const NONE: Self = Self {
        clear_messages: None,
        preserve_chat_with_operator: None,
        reset_iteration: None,
        max_iterations: None,
        background: None,
        detached: None,
        merge_fields: None,
        discard_fields: None,
    };

    /// Combines the policy of an attachment with the policy of the graph itself.
    pub(crate) const fn resolve(here: Option<Self>, own: Option<Self>) -> Option<Self> {
        match (here, own) {
            (Some(here), Some(own)) => Some(Self {
                clear_messages: first!(here.clear_messages, own.clear_messages),
                preserve_chat_with_operator: first!(here.preserve_chat_with_operator, own.preserve_chat_with_operator),
                reset_iteration: first!(here.reset_iteration, own.reset_iteration),
                max_iterations: first!(here.max_iterations, own.max_iterations),
                background: first!(here.background, own.background),
                detached: first!(here.detached, own.detached),
                merge_fields: first!(here.merge_fields, own.merge_fields),
                discard_fields: first!(here.discard_fields, own.discard_fields),
            }),
            (here, own) => first!(here, own),
        }
    }

    pub(crate) const fn merged(&self) -> FieldsSpec {
        match self.merge_fields {
            Some(fields) => fields,
            None => FieldsSpec::NONE,
        }
    }

    pub(crate) const fn discarded(&self) -> FieldsSpec {
        match self.discard_fields {
            Some(fields) => fields,
            None => FieldsSpec::NONE,
        }
    }

    pub(crate) fn policy(self) -> SubagentPolicy {
        let names = |fields: FieldsSpec| Some((fields.names)().into_iter().map(Into::into).collect());
        SubagentPolicy {
            clear_messages: self.clear_messages,
            preserve_chat_with_operator: self.preserve_chat_with_operator,
            reset_iteration: self.reset_iteration,
            max_iterations: self.max_iterations,
            background: self.background,
            detached: self.detached,
            merge_fields: names(self.merged()),
            discard_fields: names(self.discarded()),
        }
    }
}
