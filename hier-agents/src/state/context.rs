//! The part of a run's context that every agent uses.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::model::ChatModel;
use crate::price::Prices;
use crate::state::budget::Budget;
use crate::state::client_tools::ClientTools;
use hier_core::NodeError;

/// The part of a run's context that agents use, such as the model, prices and the budget. A custom context has a field
/// of this type, and implements `AsRef<BaseContext>`.
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
#[must_use]
pub struct BaseContext {
    /// The default model of agents and nodes. If an agent or node needs this model and it is `None`, the run fails.
    pub model: Option<Arc<dyn ChatModel>>,
    /// A model that the program's tools can ask about images. hier itself does not use this model.
    pub visual_model: Option<Arc<dyn ChatModel>>,
    /// The store of the contents of [`FileRef`](crate::FileRef)s, for the program's tools and nodes.
    pub file_store: Option<Arc<dyn FileStore>>,
    /// An id of the conversation, for the program's tools. hier does not read this field, because the
    /// [`Config`](hier_core::Config) of a run contains the run's thread.
    pub thread_id: Option<String>,
    /// True to log the replies of models with `tracing` at the level `DEBUG`.
    pub debug: bool,
    /// The budget of the whole run. With `None`, the run has no budget.
    pub budget: Option<Arc<Budget>>,
    /// The prices of models. If a model has no price here, the cost of its replies is unknown, unless the model reports
    /// the cost.
    pub prices: Option<Arc<Prices>>,
    /// The tools that the client describes in its request. An agent offers these tools to its model only if it lists
    /// them: `tools: [|context| &context.client_tools]`.
    pub client_tools: ClientTools,
}

impl BaseContext {
    /// Creates a context with this default model.
    pub fn new(model: impl ChatModel) -> Self {
        Self { model: Some(Arc::new(model)), ..Self::default() }
    }

    /// Sets the budget of the whole run.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(Arc::new(budget));
        self
    }

    /// Sets the prices of models. hier then writes the cost of each reply to [`Usage::cost`](crate::Usage). If the
    /// model's provider reports a cost, that cost takes precedence. If the run has a cost limit, each model must have a
    /// price or report its costs.
    pub fn prices(mut self, prices: impl Into<Arc<Prices>>) -> Self {
        self.prices = Some(prices.into());
        self
    }

    /// Sets the tools that the client describes in its request.
    pub fn client_tools(mut self, tools: ClientTools) -> Self {
        self.client_tools = tools;
        self
    }

    /// Returns the default model.
    ///
    /// # Errors
    ///
    /// Fails if the context has no default model.
    pub fn model(&self) -> Result<&Arc<dyn ChatModel>, NodeError> {
        self.model.as_ref().ok_or_else(|| NodeError::permanent("the context has no model: set `BaseContext::model`"))
    }
}

impl AsRef<Self> for BaseContext {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A context that agents can use. All types with `AsRef<BaseContext>` implement this trait.
#[diagnostic::on_unimplemented(
    message = "the context `{Self}` does not provide models",
    label = "has no `BaseContext`",
    note = "add a field `base: BaseContext` and implement `AsRef`: `impl AsRef<BaseContext> for {Self} {{ fn as_ref(&self) -> &BaseContext {{ &self.base }} }}`"
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
            .field("prices", &self.prices)
            .field("client_tools", &self.client_tools)
            .finish()
    }
}

/// A store of file contents. The state contains only references to them ([`FileRef`](crate::FileRef)).
#[async_trait]
pub trait FileStore: Send + Sync + 'static {
    /// Returns the content of the file with this id.
    async fn read(&self, id: &str) -> Result<Vec<u8>, NodeError>;

    /// Stores the content of a file under this id.
    async fn write(&self, id: &str, content: Vec<u8>) -> Result<(), NodeError>;
}
