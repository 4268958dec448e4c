//! The part of a run's context that every agent uses.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::model::ChatModel;
use crate::price::Prices;
use crate::state::budget::Budget;
use crate::state::client_tools::ClientTools;
use hier_core::NodeError;

/// The part of a run's context that agents use: models, prices, file store and budget. A custom context contains it and
/// implements `AsRef<BaseContext>`.
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
    /// The default model of agents and nodes. Those that need it fail without it.
    pub model: Option<Arc<dyn ChatModel>>,
    /// The model that tools ask about images.
    pub visual_model: Option<Arc<dyn ChatModel>>,
    /// The store of file contents.
    pub file_store: Option<Arc<dyn FileStore>>,
    /// The id of the thread, for a run whose configuration has none.
    pub thread_id: Option<String>,
    /// True to log the answers of models with `tracing` at the level `DEBUG`.
    pub debug: bool,
    /// The budget of the whole run.
    pub budget: Option<Arc<Budget>>,
    /// The prices of models. Without them, the costs of answers are unknown.
    pub prices: Option<Arc<Prices>>,
    /// The tools that the request brings. An agent accepts them if it lists them: `tools: [|context|
    /// &context.client_tools]`.
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

    /// Sets the prices of models. Each answer then has its cost in [`Usage::cost`](crate::Usage), unless the model
    /// reports it itself. With a cost limit, every model that is asked needs a price.
    pub fn prices(mut self, prices: impl Into<Arc<Prices>>) -> Self {
        self.prices = Some(prices.into());
        self
    }

    /// Sets the tools that the request brings.
    pub fn client_tools(mut self, tools: ClientTools) -> Self {
        self.client_tools = tools;
        self
    }

    /// Returns the default model.
    ///
    /// # Errors
    ///
    /// Fails if the context has no model.
    pub fn model(&self) -> Result<&Arc<dyn ChatModel>, NodeError> {
        self.model.as_ref().ok_or_else(|| NodeError::permanent("the context has no model: set `BaseContext::model`"))
    }
}

impl AsRef<Self> for BaseContext {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A context that agents can use. Implemented for all contexts that implement `AsRef<BaseContext>`.
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

/// A store of file contents. The state has only [`FileRef`](crate::FileRef)s.
#[async_trait]
pub trait FileStore: Send + Sync + 'static {
    /// Returns the content of the file with this id.
    async fn read(&self, id: &str) -> Result<Vec<u8>, NodeError>;

    /// Stores the content under this id.
    async fn write(&self, id: &str, content: Vec<u8>) -> Result<(), NodeError>;
}
