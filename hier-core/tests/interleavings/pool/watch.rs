//! A watch that looks at each batch twice, at any moment, and always finds that it needs help.

use std::sync::{Arc, Weak};

pub(crate) trait Watched: Send + Sync {
    fn taken(&self) -> usize;
    fn help(self: Arc<Self>);
}

pub(crate) fn add(batch: Weak<dyn Watched>) {
    shuttle::thread::spawn(move || {
        for _ in 0..2 {
            let Some(batch) = batch.upgrade() else { return };
            batch.help();
            shuttle::thread::yield_now();
        }
    });
}
