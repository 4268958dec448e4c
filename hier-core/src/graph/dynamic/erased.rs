use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use hier_spec::GraphSpec;
use serde_json::Value;
use uuid::Uuid;

use super::{
    DynGraph, DynGraphInfo, DynInput, DynRun, DynSnapshot, DynUpdates, GraphSchemas, QuestionSchemas, RunContext,
};
use crate::checkpoint::{Checkpointer, InboxMessage, ListQuery, background, codec};
use crate::config::Config;
use crate::engine::Saver;
use crate::engine::program::{Attachments, Decoder, ErasedGraph, Program, SecretChannel};
use crate::engine::{self, Emitter, Event, Interrupted, Outcome, Ring, Stopped, state_json};
use crate::error::{NodeError, RunError};
use crate::graph::{CompiledGraph, due, inbox};
use crate::question::QuestionType;
use crate::state::Values;

type MakeContext<C> = dyn Fn(&RunContext) -> Result<C, NodeError> + Send + Sync;

/// A compiled graph whose inputs and outputs are JSON instead of typed values. It implements [`DynGraph`].
pub struct Erased<S: Values, C> {
    program: Arc<Program<S, C>>,
    attached: Attachments,
    context: Box<MakeContext<C>>,
    schemas: GraphSchemas,
}

impl<S: Values, C, I, O> CompiledGraph<S, C, I, O> {
    /// Converts the graph to one with JSON inputs and outputs, for servers and workers. The function `context` creates
    /// the context of each run. If `context` returns an error, the run fails.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # use hier_core::graph::{DynGraph, DynInput, DynRun};
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Filing { accepted: bool }
    /// # async fn assess() -> FilingUpdate { Filing::update().accepted(true) }
    /// # graph! { Review<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// let review = Review::compile().erase(|_| Ok(()));
    /// let input = DynInput::New(serde_json::json!({ "accepted": false }));
    /// let end = review.run(DynRun::new(input, Config::default())).await?;
    /// assert_eq!(end.into_state(), serde_json::json!({ "accepted": true }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn erase(&self, context: impl Fn(&RunContext) -> Result<C, NodeError> + Send + Sync + 'static) -> Erased<S, C> {
        let state = self.inner.state_schema();
        let schemas = GraphSchemas {
            input: Some(state.clone()),
            output: Some(state.clone()),
            state: Some(state),
            context: None,
            config: None,
            questions: question_schemas(self.inner.question_types()),
        };
        let (program, attached) = (self.inner.clone(), self.attached.clone());
        Erased { program, attached, context: Box::new(context), schemas }
    }
}

fn question_schemas(questions: Vec<QuestionType>) -> BTreeMap<String, QuestionSchemas> {
    let schemas = |known: QuestionType| {
        let schemas = QuestionSchemas { question: known.schema(), answer: known.answer_schema() };
        (known.name().to_owned(), schemas)
    };
    questions.into_iter().map(schemas).collect()
}

impl<S: Values, C> Erased<S, C> {
    /// Calls `change` with a mutable reference to the schemas that [`DynGraphInfo::schemas`] returns.
    #[must_use]
    pub fn with_schemas(mut self, change: impl FnOnce(&mut GraphSchemas)) -> Self {
        change(&mut self.schemas);
        self
    }

    /// Sets the schema of `T` as the schema of the state, the input and the output.
    #[must_use]
    pub fn with_state_schema<T: schemars::JsonSchema>(self) -> Self {
        let schema = schemars::schema_for!(T).to_value();
        self.with_schemas(|schemas| {
            schemas.input = Some(schema.clone());
            schemas.output = Some(schema.clone());
            schemas.state = Some(schema);
        })
    }

    fn decoder(&self) -> Decoder<'_, S, C> {
        Decoder { graph: &self.program }
    }

    /// Makes the parts of a run, except its input.
    fn prepare(&self, run: DynRun) -> Result<PreparedParts<S, C>, RunError> {
        let graph = || self.program.plan.graph().to_owned();
        let context = (self.context)(&run.context).map_err(|error| {
            RunError::Config(format!("the context of graph `{}` cannot be created: {error}", graph()))
        })?;
        let attached = Attachments {
            saver: run.saver.map(Saver::new).or_else(|| self.attached.saver.clone()),
            store: run.store.or_else(|| self.attached.store.clone()),
        };
        let emitter = run.event_sink.map(|sink| {
            let ring = Ring::tapped(Box::new(move |event: Event<S>| match event.into_log() {
                Ok(event) => sink(event),
                Err(error) => tracing::warn!(%error, "dropped an event that cannot be serialized to JSON"),
            }));
            let modes = run.modes.iter().copied().collect();
            Arc::new(Emitter::root(Arc::new(ring), modes, run.config.stream_subgraphs))
        });
        Ok(PreparedParts { attached, config: Arc::new(run.config), context: Arc::new(context), emitter })
    }
}

struct PreparedParts<S: Values, C> {
    attached: Attachments,
    config: Arc<Config>,
    context: Arc<C>,
    emitter: Option<Arc<Emitter<S>>>,
}

impl<S: Values, C: Send + Sync + 'static> DynGraphInfo for Erased<S, C> {
    fn spec(&self) -> &GraphSpec {
        &self.program.spec
    }

    fn schemas(&self) -> &GraphSchemas {
        &self.schemas
    }

    fn state_schema(&self, nodes: &[String]) -> Option<Value> {
        let Some((first, rest)) = nodes.split_first() else { return self.schemas.state.clone() };
        let mut graph = ErasedGraph::inner(&*self.program, first).ok()?.graph;
        for node in rest {
            graph = graph.inner(node).ok()?.graph;
        }
        Some(graph.state_schema())
    }

    fn check_answer(&self, question: &str, answer: &Value) -> Result<(), String> {
        let types = self.program.question_types();
        // Two graphs may give the same name to two questions, if the outer graph has no `asks`.
        let checks = types.iter().filter(|known| known.name() == question).map(|known| known.check_answer(answer));
        checks.reduce(Result::or).unwrap_or(Ok(()))
    }

    fn check(&self, input: &DynInput) -> Result<(), RunError> {
        self.decoder().input(input).map(|_| ())
    }

    fn secret_channels(&self) -> Vec<SecretChannel> {
        self.program.secret_channels()
    }

    fn names(&self) -> Vec<String> {
        let detached = self.program.hooks.detached.as_ref().map_or_else(Vec::new, |runs| runs.graphs());
        due::names(&self.program).into_iter().chain(detached).collect()
    }

    fn inbox(&self) -> Option<&str> {
        self.program.inbox.map(|inbox| &*self.program.channels[inbox].name)
    }
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> DynGraph for Erased<S, C> {
    async fn run(&self, run: DynRun) -> Result<Outcome<Value>, RunError> {
        let input = self.decoder().input(&run.input)?;
        let PreparedParts { attached, config, context, emitter } = self.prepare(run)?;
        let ended: Outcome<S> = engine::run(self.program.clone(), attached, input, config, context, emitter).await?;
        let state = state_json(ended.state()).map_err(|error| self.program.no_json(&error))?;
        Ok(match ended {
            Outcome::Finished(_) => Outcome::Finished(state),
            Outcome::Interrupted(Interrupted { questions, resumable, .. }) => {
                Outcome::Interrupted(Interrupted { state, questions, resumable })
            }
            Outcome::Stopped(Stopped { reason, next, .. }) => Outcome::Stopped(Stopped { state, reason, next }),
        })
    }

    async fn detached(&self, saver: Arc<dyn Checkpointer>, thread: &str) -> Result<Vec<String>, RunError> {
        let attached = Attachments { saver: Some(Saver::new(saver)), store: None };
        engine::detached_threads(&self.program, &attached, &Config::new().thread(thread)).await
    }

    async fn continue_detached(&self, run: DynRun) -> Result<Outcome<Value>, RunError> {
        let thread = run.config.thread_id().unwrap_or_default().to_owned();
        let Some(outer) = background::outer_of(&thread) else {
            return Err(RunError::Config(format!("thread `{thread}` does not belong to a background subagent")));
        };
        let PreparedParts { attached, config, context, emitter } = self.prepare(run)?;
        let config = Arc::new(Config::clone(&config).thread(outer));
        let detached = engine::Detached { program: self.program.clone(), attached, config, context, emitter };
        // If the supervisor has collected the report meanwhile, no work is left.
        let ended = detached.drive(&thread).await?;
        Ok(ended.unwrap_or(Outcome::Finished(Value::Null)))
    }

    async fn state(&self, saver: Arc<dyn Checkpointer>, config: Config) -> Result<DynSnapshot, RunError> {
        let saver = Saver::new(saver);
        let (graph, config) = engine::addressed(&*self.program, &saver, &config).await?;
        graph.state(&saver, &config).await
    }

    async fn history(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError> {
        let saver = Saver::new(saver);
        let (graph, config) = engine::addressed(&*self.program, &saver, &config).await?;
        graph.history(&saver, &config, query).await
    }

    async fn update_state(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        supersteps: Vec<Vec<DynUpdates>>,
    ) -> Result<Config, RunError> {
        engine::update_at(&*self.program, &Saver::new(saver), &config, &supersteps).await
    }

    async fn send(
        &self,
        saver: Arc<dyn Checkpointer>,
        thread: &str,
        id: Uuid,
        signal: Option<&str>,
        value: &Value,
    ) -> Result<bool, RunError> {
        let graph = self.program.plan.graph();
        let refused = |reason: String| RunError::Send { graph: graph.to_owned(), reason };
        let value = codec::encode(value).map_err(|error| refused(format!("it cannot be stored: {error}")))?;
        let letter = match signal {
            Some(name) => InboxMessage::signal(id, name, value),
            None => InboxMessage::message(id, self.program.fit(value).map_err(refused)?),
        };
        inbox::post(&self.program, &Saver::new(saver), thread, letter).await
    }

    async fn is_due(
        &self,
        saver: Arc<dyn Checkpointer>,
        thread: &str,
        now: SystemTime,
        again: Option<SystemTime>,
    ) -> Result<bool, RunError> {
        let config = Config::new().thread(thread).at(now);
        due::is_due(&self.program, &Saver::new(saver), &config, again).await
    }
}

impl<S: Values, C> fmt::Debug for Erased<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erased").field("graph", &self.program.spec.name).finish_non_exhaustive()
    }
}
