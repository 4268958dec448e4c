//! Records the trust labels of tools in a conversation.

use hier_spec::trust::TrustLabels;
use tracing::Span;

use crate::state::labels::ConversationLabels;
use hier_core::graph::Command;
use hier_core::state::Values;

/// Adds the labels of a tool that was called to the conversation. A failed call counts, because its error is text of
/// the tool.
pub(super) fn record_labels<S: Values>(mut command: Command<S>, labels: TrustLabels, state: &S) -> Command<S> {
    if !labels.read().is_empty()
        && !command.is_for_parent()
        && let Some(write) = ConversationLabels::new(labels).added_to(state)
    {
        command.writes.push(write);
    }
    command
}

/// Records the labels of the tool and of the conversation in the span of the call, if the tool has labels.
pub(super) fn show_in_span<S: Values>(span: &Span, labels: TrustLabels, state: &S) {
    if labels.is_empty() || span.is_disabled() {
        return;
    }
    span.record("hier.tool.labels", tracing::field::display(labels));
    if let Some(known) = ConversationLabels::of_state(state) {
        span.record("hier.conversation.labels", tracing::field::display(known));
    }
}
