//! What every agent finds in the context of its run.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::model::ChatModel;
use crate::state::budget::Budget;
use hier_core::NodeError;

/// What every agent finds in the context of its run: the models, the file store. A context of your own has one, and
/// says where: `impl AsRef<BaseContext> for Desk`.
///
/// ```
/// use hier_testkit::ScriptedModel;
/// use hier_agents::prelude::*;
///
/// struct Desk {
///     base: BaseContext,
///     tax_year: u16,
/// }
///
/// impl AsRef<BaseContext> for Desk {
///     fn as_ref(&self) -> &BaseContext {
///         &self.base
///     }
/// }
///
/// let model = ScriptedModel::new([Message::assistant("hello")]);
/// let desk = Desk { base: BaseContext::new(model), tax_year: 2025 };
/// # let _ = desk.tax_year;
/// ```
#[derive(Clone, Default)]
pub struct BaseContext {
    /// The model that the agents ask. An agent that is to ask one fails without it.
    pub model: Option<Arc<dyn ChatModel>>,
    /// The model for what is to be seen: tools ask it about images.
    pub visual_model: Option<Arc<dyn ChatModel>>,
    /// Where the content of files is kept.
    pub file_store: Option<Arc<dyn FileStore>>,
    /// The id of the thread, for those who start a run without one in its configuration.
    pub thread_id: Option<String>,
    /// Whether the agents log what their models answer, with `tracing`, at the level `DEBUG`.
    pub debug: bool,
    /// What the whole run may spend.
    pub budget: Option<Arc<Budget>>,
}

impl BaseContext {
    /// A context with this model and nothing else.
    pub fn new(model: impl ChatModel) -> Self {
        Self { model: Some(Arc::new(model)), ..Self::default() }
    }

    /// The same context with a budget for the whole run.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(Arc::new(budget));
        self
    }

    /// The model, or an error that says that there is none.
    pub fn model(&self) -> Result<&Arc<dyn ChatModel>, NodeError> {
        self.model.as_ref().ok_or_else(|| {
            NodeError::permanent("there is no model to ask: give the run a context whose `BaseContext::model` is set")
        })
    }
}

impl AsRef<Self> for BaseContext {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A context in which models are found. Implemented for every context that says where its [`BaseContext`] is.
#[diagnostic::on_unimplemented(
    message = "the context `{Self}` does not say where its models are",
    label = "has no `BaseContext`",
    note = "give it a field `base: BaseContext`, and say so: `impl AsRef<BaseContext> for {Self} {{ fn as_ref(&self) -> &BaseContext {{ &self.base }} }}`"
)]
pub trait AgentContext: AsRef<BaseContext> {}

#[diagnostic::do_not_recommend]
impl<C: AsRef<BaseContext> + ?Sized> AgentContext for C {}

impl fmt::Debug for BaseContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |model: &Option<Arc<dyn ChatModel>>| model.as_ref().map(|model| model.name().to_owned());
        f.debug_struct("BaseContext")
            .field("model", &name(&self.model))
            .field("visual_model", &name(&self.visual_model))
            .field("file_store", &self.file_store.is_some())
            .field("thread_id", &self.thread_id)
            .field("debug", &self.debug)
            .field("budget", &self.budget)
            .finish()
    }
}

/// Where the content of files is kept. The state only has [`FileRef`](crate::FileRef)s.
#[async_trait]
pub trait FileStore: Send + Sync + 'static {
    /// The content of the file with this id.
    async fn read(&self, id: &str) -> Result<Vec<u8>, NodeError>;

    /// Keeps a content under this id.
    async fn write(&self, id: &str, content: Vec<u8>) -> Result<(), NodeError>;
}
