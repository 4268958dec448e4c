//! The JSON forms of requests and responses.

pub(crate) mod checkpoint;
pub(crate) mod connector;
pub(crate) mod message;
pub(crate) mod message_paths;
pub(crate) mod object;
pub(crate) mod question;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod state;
