//! The redacting layer, as configured by the user.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::find::{Find, Texts};
use super::{Pattern, Redactor};

/// A layer that replaces secrets with a mark: `Redact(Emails)`, or `Redact(keys)` with a function (see [`Find`]). The
/// position of the layer in the list does not matter: other layers never see a secret, and text that they add is
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
/// | data | redacted parts |
/// |---|---|
/// | requests | Instructions, conversation and tool results. |
/// | replies | Text, reasoning and tool arguments. A tool therefore receives the mark instead of the secret. While text is streamed, the layer holds back the possible beginning of a secret ([`Find::open`]). Arguments are streamed when they are complete. |
/// | stored data | Replies, tool results, reports of subagents, records of `#[tool(step)]`, and messages that tools, layers and subagents add to conversations. |
/// | questions | The arguments of a tool call in an [`ApprovalRequest`](crate::ApprovalRequest). If the operator edits them, the tool receives the edited arguments, with the marks that they contain. |
/// | errors and logs | The texts of errors of models and tools, and logs about these errors. |
///
/// The layer does **not** redact these texts, or does not redact them at once:
///
/// * Stored messages that were in the conversation before the request, such as the user's. The request itself contains
///   the redacted messages. When the model's next reply is stored, the layer also redacts the messages in the state.
///   Earlier checkpoints keep the original messages.
/// * An operator's answer, as long as the tool call that asked the question has not ended. Until then, the answer is
///   stored unchanged.
/// * Other questions, such as those of [`Run::interrupt`](hier_core::Run::interrupt).
/// * Values that tools and subagents write to channels other than conversations.
/// * Results that a tool records with [`Run::step`](hier_core::Run::step). Only the records of `#[tool(step)]`, which
///   hold the result of the whole call, are redacted.
/// * Updates for an outer graph: those of a [`Command::parent`](hier_core::graph::Command::parent), and those of the
///   `on_exit` function of a subagent. The outer graph stores and streams them.
/// * URLs and data of images and files. Names of files are redacted.
///
/// To protect the messages and answers in this list, encrypt the checkpoints, or redact the input with [`Redact::text`]
/// before you pass it to the run.
///
/// The layer also finds secrets in JSON strings whose characters are escaped up to eight times. It replaces characters
/// that are escaped more often with the mark. If the layer redacts reasoning, it removes the provider's signature, and
/// hier does not send the reasoning back to the provider.
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

    /// Returns `text`, in which the mark replaces each secret.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match Redactor::new(vec![self.0.clone()]).redacted(text) {
            Some(redacted) => Cow::Owned(redacted),
            None => Cow::Borrowed(text),
        }
    }
}
