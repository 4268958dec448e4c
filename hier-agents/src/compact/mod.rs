//! Conversations that are longer than their model can read: what is sent instead of all of it.
//!
//! Nothing is taken out of the state. A [`Compaction`] beside the conversation says what of it is sent: a *view*, made anew for each
//! question. It is a value like any other, so it is stored with the answer that it was made for, forked, and undone by writing
//! another (`None` sends everything again). How it is made is said by [`Compact`].
//!
//! The way from long to short has four rungs, and ends on the first that is enough:
//! 1. old results of tools are cleared: a line says where they can be read again;
//! 2. long texts and arguments among the old messages are offloaded: their beginning is sent, and where the rest can be read;
//! 3. the oldest messages are summed up by a model;
//! 4. what is still too large is clipped, message by message.
//!
//! *Where* is the state itself: the model gets the tool `read_earlier`, which reads messages of the conversation by their ids, or looks
//! for a text in them. A copy in a store would be a second truth: not forked, not undone, not deleted with the thread.
//!
//! What is sent is a valid conversation if what is stored is one: the summary stands between calls and their results, never
//! among them; instructions (messages of the system) are all sent; the first message that is none is a user's; a message of the model that has
//! reasoning, which its provider may have signed, is sent as it is or not at all; files and images in messages that are sent whole stay as
//! they are.

mod groups;
mod ladder;
mod policy;
pub(crate) mod reading;
mod record;
mod shorten;
mod size;
#[cfg(test)]
mod tests;
pub(crate) mod transcript;
mod view;

pub(crate) use ladder::{Climb, Goal, Step, climb};
pub use policy::Compact;
pub use record::{Clipping, Compaction, Mark};
pub(crate) use size::{Used, fixed_size, used};
pub use view::compacted;
