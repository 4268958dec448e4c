//! [`Redact`] as a layer.

use std::borrow::Cow;
use std::sync::Arc;

use super::Layer;
use super::around::CallLayers;
use crate::redaction::{Pattern, Redact, Redactor};
use hier_core::state::Values;

/// Combines the redacting layers of a call. Returns `None` if the call has no redacting layer.
pub(crate) fn redactor<S: Values, C: Send + Sync + 'static>(layers: CallLayers<'_, S, C>) -> Option<Arc<Redactor>> {
    let mut patterns: Vec<Arc<Pattern>> = Vec::new();
    for listed in layers.outer.layers {
        patterns.extend(listed.layer.redacts().map(|redact| redact.0.clone()));
    }
    for listed in layers.own {
        patterns.extend(listed.layer.redacts().map(|redact| redact.0.clone()));
    }
    (!patterns.is_empty()).then(|| Arc::new(Redactor::new(patterns)))
}

impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Redact {
    fn name(&self) -> Cow<'static, str> {
        "Redact".into()
    }

    fn redacts(&self) -> Option<&Redact> {
        Some(self)
    }
}
