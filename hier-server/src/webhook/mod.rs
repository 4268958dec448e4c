//! Webhooks, which are requests that notify a URL when a run ends.

mod address;
mod limits;
mod options;
mod payload;
mod send;

pub use options::Webhooks;
pub(crate) use send::WebhookSender;
