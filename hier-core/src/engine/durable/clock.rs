//! Makes the ids of checkpoints. Each id is greater than the ids before it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

use crate::engine::program::random_node;
use crate::policy::{StepPolicy, StoppedClock};

#[derive(Clone)]
pub(in crate::engine) struct IdClock {
    /// Units of 100 ns since October 1582, as in UUIDs.
    ticks: u64,
    node: [u8; 6],
    stopped: Option<u64>,
}

/// 1970-01-01 in the ticks of UUIDs (RFC 9562).
const UNIX_EPOCH_TICKS: u64 = 0x01b2_1dd2_1381_4000;

impl IdClock {
    /// Creates a clock whose ids are greater than `floor`.
    pub(in crate::engine) fn after(floor: Option<Uuid>) -> Self {
        let ticks = floor.and_then(|id| id.get_timestamp()).map_or(0, |time| time.to_gregorian().0);
        Self { ticks, node: random_node(), stopped: None }
    }

    /// Stops the clock if the policy demands it. Then a repeated part of a run makes the same ids, and other systems
    /// recognize the keys of its tasks.
    pub(in crate::engine) fn stopped_by(self, policy: Option<&dyn StepPolicy>, namespace: &str) -> Self {
        match policy.and_then(|policy| policy.clock(namespace)) {
            Some(StoppedClock { since_1970, node }) => Self { node, stopped: Some(ticks_of(since_1970)), ..self },
            None => self,
        }
    }

    /// Returns true if a run with the node field of the policy has made the checkpoint, perhaps in another process.
    pub(in crate::engine) fn has_made(&self, checkpoint: Option<Uuid>) -> bool {
        self.stopped.and(checkpoint).is_some_and(|id| id.as_bytes()[10..] == self.node)
    }

    pub(in crate::engine) fn id(&mut self, step: i64) -> Uuid {
        let now = || ticks_of(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let now = self.stopped.unwrap_or_else(now);
        self.ticks = now.max(self.ticks + 1);
        // As in LangGraph, the clock sequence of the id has the superstep modulo 2^14.
        let sequence = u16::try_from(step.rem_euclid(1 << 14)).unwrap_or_default();
        Builder::from_sorted_gregorian_timestamp(self.ticks, sequence, &self.node).into_uuid()
    }
}

/// Converts a time since 1970 to the ticks of UUIDs.
fn ticks_of(since_1970: Duration) -> u64 {
    let ticks = since_1970.as_secs().saturating_mul(10_000_000) + u64::from(since_1970.subsec_nanos() / 100);
    // UUIDs have 60 bits for ticks.
    UNIX_EPOCH_TICKS.saturating_add(ticks).min((1 << 60) - 1)
}
