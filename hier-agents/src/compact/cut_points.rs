//! Finds the positions where a conversation can be cut. A cut never separates a call from its result.

use std::collections::HashMap;

use hier_checkpoint::message::{Body, Messages};

/// Returns for each position, including the end, whether the conversation can be cut before it. A cut is possible
/// before a message that is not a tool result, if no earlier call has its result at or after the cut.
pub(super) fn cut_points(messages: &Messages) -> Vec<bool> {
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    // For each position, the change in the number of pairs that begin before the position and end at or after it.
    let mut spans = vec![0_isize; messages.len() + 2];
    for (place, message) in messages.iter().enumerate() {
        for call in message.tool_calls() {
            open.entry(&call.id).or_default().push(place);
        }
        // If several calls share an id, the result belongs to the last of these calls, as in the request.
        let answered = message.tool_call_id().and_then(|id| open.get_mut(id)?.pop());
        if let Some(call) = answered {
            spans[call + 1] += 1;
            spans[place + 1] -= 1;
        }
    }
    let mut pairs = 0;
    (0..=messages.len())
        .map(|place| {
            pairs += spans[place];
            let begins = messages.get(place).is_none_or(|message| !matches!(message.body, Body::Tool { .. }));
            pairs == 0 && begins
        })
        .collect()
}
