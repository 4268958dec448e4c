//! The ids of checkpoints: each greater than those before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

use crate::engine::program::random_node;
use crate::policy::{StepPolicy, StoppedClock};

/// Makes ids that grow.
#[derive(Clone)]
pub(in crate::engine) struct Clock {
    /// Units of 100 ns since October 1582, as in UUIDs.
    ticks: u64,
    node: [u8; 6],
    /// What the clock shows, where it has been stopped.
    stopped: Option<u64>,
}

/// 1970, in the ticks of UUIDs (RFC 9562).
const UNIX_EPOCH_TICKS: u64 = 0x01b2_1dd2_1381_4000;

impl Clock {
    /// A clock whose ids are greater than this one.
    pub(in crate::engine) fn after(floor: Option<Uuid>) -> Self {
        let ticks = floor.and_then(|id| id.get_timestamp()).map_or(0, |time| time.to_gregorian().0);
        Self { ticks, node: random_node(), stopped: None }
    }

    /// The clock that the policy stops, if it does: a part of a run that is repeated makes the same ids, so that keys which its tasks
    /// send to other systems are recognized.
    pub(in crate::engine) fn stopped_by(self, policy: Option<&dyn StepPolicy>, namespace: &str) -> Self {
        match policy.and_then(|policy| policy.clock(namespace)) {
            Some(StoppedClock { since_1970, node }) => Self { node, stopped: Some(ticks_of(since_1970)), ..self },
            None => self,
        }
    }

    pub(in crate::engine) fn id(&mut self, step: i64) -> Uuid {
        let now = || ticks_of(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let now = self.stopped.unwrap_or_else(now);
        self.ticks = now.max(self.ticks + 1);
        // The reference keeps the step, modulo 2^14, in the clock sequence of the id.
        let sequence = u16::try_from(step.rem_euclid(1 << 14)).unwrap_or_default();
        Builder::from_sorted_gregorian_timestamp(self.ticks, sequence, &self.node).into_uuid()
    }
}

/// A time since 1970, in the ticks of UUIDs.
fn ticks_of(since_1970: Duration) -> u64 {
    let ticks = since_1970.as_secs().saturating_mul(10_000_000) + u64::from(since_1970.subsec_nanos() / 100);
    // There are 60 bits for them.
    UNIX_EPOCH_TICKS.saturating_add(ticks).min((1 << 60) - 1)
}
