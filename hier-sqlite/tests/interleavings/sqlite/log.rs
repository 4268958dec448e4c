//! A log that is sometimes long.

use std::sync::Arc;

use rusqlite::Connection;
use shuttle::rand::{Rng as _, thread_rng};

pub(super) struct WriteAheadLog;

impl WriteAheadLog {
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // as the saver's
    pub(super) fn watch(self: &Arc<Self>, _: &mut Connection) -> Result<(), rusqlite::Error> {
        Ok(())
    }

    #[allow(clippy::unused_self)]
    pub(super) fn is_long(&self, _: bool) -> bool {
        thread_rng().gen_ratio(1, 4)
    }

    /// Takes a while.
    #[allow(clippy::unused_self)]
    pub(super) fn write_back(&self, _: bool) {
        shuttle::thread::yield_now();
    }

    #[allow(clippy::unused_self)]
    pub(super) fn shorten(&self, _: &Connection, _: bool) {
        shuttle::thread::yield_now();
    }
}
