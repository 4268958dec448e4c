//! The redacting layer, as configured by the user.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::find::{Find, Texts};
use super::{Pattern, Redactor};

/// A layer that replaces secrets with a mark: `Redact(Emails)`, or `Redact(keys)` with a function (see [`Find`]). Its
/// position in the list of layers makes no difference: other layers never see a secret, and their own additions are
/// redacted too.
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
///
/// | place | redacted |
/// |---|---|
/// | requests | Instructions, conversation and tool results. |
/// | answers | Text, reasoning and tool arguments, so a tool receives the mark. While text is streamed, the possible beginning of a secret is held back ([`Find::open`]). Arguments are sent when they are complete. |
/// | stored data | Answers, tool results, `#[tool(step)]` records, and writes of tools and layers to conversations. |
/// | errors and logs | Errors of models and tools, and logs about them. Errors keep their kinds. |
///
/// These are **not** redacted:
///
/// * An earlier message of the conversation, such as the user's, until the model's next answer. Earlier checkpoints
///   keep the original.
/// * An operator's answer, while it is stored until the call that asked is done.
/// * Values that tools write to other channels.
/// * URLs and data of images and files. Their names are redacted.
///
/// To avoid the first two, encrypt the checkpoints, or redact the input before you pass it in ([`Redact::text`]).
///
/// Secrets are also found in JSON strings whose characters are escaped up to eight times. Characters that are escaped
/// more often are replaced. Redacted reasoning loses its provider's signature and is not sent back.
#[derive(Clone)]
pub struct Redact(pub(crate) Arc<Pattern>);

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redact").field("mark", &self.0.mark).finish_non_exhaustive()
    }
}

impl Redact {
    /// Creates a layer that redacts the secrets that `find` finds. The mark defaults to `[redacted]`.
    pub fn new(find: impl Find) -> Self {
        Self(Arc::new(Pattern { find: Arc::new(find), mark: "[redacted]".to_owned() }))
    }

    /// Creates a layer that redacts these strings. The mark defaults to `[redacted]`.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::new(Texts::new(texts))
    }

    /// Sets the string that replaces a secret. Defaults to `[redacted]`.
    #[must_use]
    pub fn mark(self, mark: impl Into<String>) -> Self {
        Self(Arc::new(Pattern { find: self.0.find.clone(), mark: mark.into() }))
    }

    /// Returns the string without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match Redactor::new(vec![self.0.clone()]).redacted(text) {
            Some(redacted) => Cow::Owned(redacted),
            None => Cow::Borrowed(text),
        }
    }
}
