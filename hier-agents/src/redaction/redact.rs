//! The redacting layer, as configured by the user.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::find::{Find, Texts};
use super::{Pattern, Redactor};

/// Replaces secrets with a mark: `Redact(Emails)`, or `Redact(keys)` with a function that finds them (see [`Find`]).
///
/// * Requests to a model contain no secrets: neither its instructions, nor the conversation, nor results of tools.
/// * Its answers contain none: neither texts, nor reasoning, nor arguments of calls (a tool is called with the mark).
///   While a text is streamed, the possible beginning of a secret is held back ([`Find::open`]). Arguments are sent
///   once they are complete.
/// * Stored data contains none. This covers answers, results of tools, records of `#[tool(step)]`, and writes of tools
///   and other layers to conversations. If an earlier message of the conversation has a secret, for example the user's,
///   it is replaced with the model's next answer. Earlier checkpoints keep the original. The answer of an operator is
///   stored unredacted until the call that asked is done. To avoid both, encrypt the checkpoints or redact before the
///   input is passed in ([`Redact::text`]). Values that tools write into other channels are not redacted.
/// * The errors of models and tools contain none, nor do the logs about them. Errors keep their kinds.
///
/// A secret is also found in JSON where its letters are escaped, up to eight times. Letters that are escaped more often
/// are replaced. Addresses and data of images and files are not read; their names are. The position of the layer in the
/// list makes no difference. Other layers never see the secret, and their additions are redacted as well.
///
/// Reasoning that contained a secret loses its maker's signature and is not sent back.
///
/// ```
/// use hier_agents::AgentBuilder;
/// use hier_agents::layer::{Emails, Redact};
/// use hier_agents::prelude::*;
/// use hier_testkit::ScriptedModel;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let desk = AgentBuilder::<BaseState>::new("desk").layer(Redact::new(Emails).mark("[address]")).compile()?;
/// let model = ScriptedModel::new([Message::assistant("I wrote to max@example.org.")]);
/// let asked = Message::user("Write to eva@example.org.");
/// let out = desk.invoke(asked).context(BaseContext::new(model.clone())).await?;
/// let texts: Vec<String> = out.state().messages.iter().map(Message::text).collect();
/// assert_eq!(texts, ["Write to [address].", "I wrote to [address]."]);
/// assert_eq!(model.requests()[0].messages.last().unwrap().text(), "Write to [address].");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redact(pub(crate) Arc<Pattern>);

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redact").field("mark", &self.0.mark).finish_non_exhaustive()
    }
}

impl Redact {
    /// Redacts the secrets that `find` finds, with the mark `[redacted]`.
    pub fn new(find: impl Find) -> Self {
        Self(Arc::new(Pattern { find: Arc::new(find), mark: "[redacted]".to_owned() }))
    }

    /// Redacts these texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::new(Texts::new(texts))
    }

    /// Sets the mark.
    #[must_use]
    pub fn mark(self, mark: impl Into<String>) -> Self {
        Self(Arc::new(Pattern { find: self.0.find.clone(), mark: mark.into() }))
    }

    /// Returns the text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match Redactor::new(vec![self.0.clone()]).redacted(text) {
            Some(redacted) => Cow::Owned(redacted),
            None => Cow::Borrowed(text),
        }
    }
}
