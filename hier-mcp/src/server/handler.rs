//! Answers the requests of clients.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use hier_core::Question;
use hier_core::graph::DynInput;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientResult, CreateTaskResult,
    ElicitRequest, ErrorData, GetTaskParams, GetTaskResult, Implementation, InputRequest, InputRequiredResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, ServerRequest,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use super::asked;
use super::calls::{Calls, Open, Reached, failed};
use super::progress::Progress;
use super::served::Served;
use super::sessions::Owner;

#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) calls: Arc<Calls>,
    pub(crate) tasks: TaskManager,
    /// Whose the tasks are.
    pub(crate) owners: Arc<Mutex<HashMap<String, Owner>>>,
    pub(crate) name: String,
}

/// What a call goes on with.
struct Begun {
    tool: String,
    served: Served,
    thread: String,
    input: DynInput,
    /// Answers that came with the call, before anything was asked.
    early: Option<BTreeMap<String, Value>>,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools();
        let has_long = self.calls.graphs.values().any(|served| served.is_long);
        let capabilities = if has_long { capabilities.enable_tasks().build() } else { capabilities.build() };
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(self.name.clone(), env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.calls.graphs.iter().map(|(name, served)| served.tool(name));
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.to_string();
        let served = self.calls.graphs.get(&tool).cloned();
        let served = served.ok_or_else(|| ErrorData::invalid_params(format!("Unknown tool: {tool}"), None))?;
        let Some(place) = self.calls.enter() else {
            return Ok(failed("the server is busy: call again later".to_owned()).into());
        };
        let begun = match &request.request_state {
            Some(state) => {
                let open = self.calls.reopen((&tool, &Owner::of(&context)), &served, state).await;
                let open = open.map_err(|why| ErrorData::invalid_params(why, None))?;
                match Calls::answers(&open.questions, &request.input_responses.unwrap_or_default()) {
                    Some(input) => Begun { tool, served, thread: open.thread, input, early: None },
                    None => return self.ask(&tool, &open, &context),
                }
            }
            None => match Calls::begin(&served, request.arguments) {
                Ok((thread, input)) => Begun { tool, served, thread, input, early: request.input_responses },
                Err(why) => return Ok(failed(why).into()),
            },
        };
        let knows_tasks = context.client_capabilities().is_some_and(|client| client.supports_tasks());
        if begun.served.is_long && knows_tasks {
            let calls = self.calls.clone();
            let task = self.tasks.spawn(TaskOptions::new().with_ttl_ms(None), move |task| {
                Box::pin(async move {
                    let _place = place;
                    as_task(&calls, begun, task).await
                })
            });
            self.keep(&task.task_id, Owner::of(&context));
            return Ok(CreateTaskResult::new(task).into());
        }
        let cancelled = context.ct.clone();
        tokio::select! {
            answer = self.call(begun, &context) => answer,
            () = cancelled.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.check(&request.task_id, &context)?;
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.check(&request.task_id, &context)?;
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.check(&request.task_id, &context)?;
        self.tasks.cancel_task(&request.task_id)
    }
}

/// After so many tasks, those that are gone are forgotten.
const TASKS: usize = 10_000;

impl Handler {
    fn owners(&self) -> MutexGuard<'_, HashMap<String, Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers whose a task is.
    fn keep(&self, task: &str, owner: Owner) {
        let mut owners = self.owners();
        if owners.len() >= TASKS {
            owners.retain(|task, _| self.tasks.get_task(task).is_ok());
        }
        owners.insert(task.to_owned(), owner);
    }

    /// Refuses the task of another user, as one that does not exist.
    fn check(&self, task: &str, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if self.owners().get(task) == Some(&Owner::of(context)) {
            return Ok(());
        }
        self.tasks.get_task(&uuid::Uuid::new_v4().to_string()).map(|_| ())
    }

    /// Makes a call whose client waits.
    async fn call(&self, begun: Begun, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let Begun { tool, served, thread, mut input, mut early } = begun;
        let is_old = context.protocol_version().is_none_or(|version| version.has_initialize());
        let progress = context.meta.get_progress_token().map(|token| Progress::to(context.peer.clone(), token));
        let reached = loop {
            let tell = progress.as_ref().map(|progress| progress.tell.clone());
            let reached = self.calls.run(&served, &thread, input, tell).await;
            if let (Reached::Asks(questions), Some(early)) = (&reached, early.take())
                && let Some(answered) = Calls::answers(questions, &early)
            {
                input = answered;
                continue;
            }
            match reached {
                Reached::Asks(questions) if is_old => match self.asked_now(&questions, context).await {
                    Ok(answered) => input = answered,
                    Err(why) => break Reached::Done(failed(why)),
                },
                reached => break reached,
            }
        };
        if let Some(progress) = progress {
            progress.finish().await;
        }
        match reached {
            Reached::Done(result) => Ok(result.into()),
            Reached::Asks(questions) => self.ask(&tool, &Open { thread, questions }, context),
        }
    }

    /// Asks the client, which calls again with the answers.
    fn ask(
        &self,
        tool: &str,
        open: &Open,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = context.client_capabilities();
        let requests = asked::requests(&open.questions, client.as_ref())
            .map_err(|needed| ErrorData::missing_required_client_capability(*needed))?;
        let state = self.calls.seal((tool, &Owner::of(context)), &open.thread, &open.questions);
        let state = state.map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(InputRequiredResult::new(Some(requests), Some(state)).into())
    }

    /// Asks an older client while its call waits.
    async fn asked_now(
        &self,
        questions: &[Question],
        context: &RequestContext<RoleServer>,
    ) -> Result<DynInput, String> {
        if context.client_capabilities().is_none_or(|client| client.elicitation.is_none()) {
            return Err("the graph asks something, and this client cannot ask anybody".to_owned());
        }
        let mut responses = BTreeMap::new();
        for (key, question) in asked::keys(questions) {
            let request: ElicitRequest =
                serde_json::from_value(asked::request(question)).map_err(|error| error.to_string())?;
            let answer = context.peer.send_request(ServerRequest::ElicitRequest(request)).await;
            let ClientResult::ElicitResult(answer) = answer.map_err(|error| error.to_string())? else {
                return Err("the client gave no answer".to_owned());
            };
            responses.insert(key, serde_json::to_value(answer).map_err(|error| error.to_string())?);
        }
        Calls::answers(questions, &responses).ok_or_else(|| "the answer does not fit".to_owned())
    }
}

/// Makes a call as a task, whose client asks from time to time how far it is.
async fn as_task(calls: &Calls, begun: Begun, task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let Begun { served, thread, mut input, .. } = begun;
    loop {
        let reached = tokio::select! {
            reached = calls.run(&served, &thread, input, None) => reached,
            () = task.cancelled() => return Err(TaskExit::Cancelled),
        };
        let questions = match reached {
            Reached::Done(result) => return Ok(result),
            Reached::Asks(questions) => questions,
        };
        let asked = asked::keys(&questions).into_iter().map(|(key, question)| {
            let (task, request) = (task.clone(), serde_json::from_value::<InputRequest>(asked::request(question)));
            async move {
                let request = request.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                task.request_input(key.clone(), request).await.map(|answer| (key, answer))
            }
        });
        let answered: Vec<Result<(String, Value), TaskExit>> = join_all(asked).await;
        let responses = answered.into_iter().collect::<Result<BTreeMap<_, _>, _>>()?;
        let Some(answers) = Calls::answers(&questions, &responses) else {
            // A key is asked once in a task.
            return Ok(failed("an answer does not fit what was asked for".to_owned()));
        };
        input = answers;
    }
}
