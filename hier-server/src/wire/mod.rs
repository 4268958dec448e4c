//! The forms of what goes over the wire.

pub(crate) mod message;
pub(crate) mod object;
pub(crate) mod places;
pub(crate) mod question;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod state;
