//! The handlers of the routes, by resource.

mod answers;
pub(crate) mod assistants;
pub(crate) mod batch;
pub(crate) mod cancel;
pub(crate) mod cron_search;
pub(crate) mod crons;
pub(crate) mod disconnect;
pub(crate) mod inbox;
pub(crate) mod page;
pub(crate) mod run_plan;
pub(crate) mod runs;
pub(crate) mod states;
pub(crate) mod storage;
pub(crate) mod store;
pub(crate) mod streams;
pub(crate) mod system;
pub(crate) mod thread_stream;
pub(crate) mod threads;
