//! Webhooks: requests that notify an address of the end of a run.

mod address;
mod options;
mod payload;
mod send;

pub use options::Webhooks;
pub(crate) use send::WebhookSender;
