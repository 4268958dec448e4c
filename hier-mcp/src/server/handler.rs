use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hier_core::graph::DynInput;
use hier_core::{NodeError, Question};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientResult, CreateTaskResult, ElicitRequest,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, PingRequest, PromptsCapability, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ResourcesCapability, ServerCapabilities, ServerConfig, ServerRequest, ToolsCapability,
    UpdateTaskParams,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{RoleServer, ServerHandler, ServiceError};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::calls::{AskedQuestions, CallOutcome, GraphCalls, PendingCall, PreparedCall, failed};
use super::elicitation;
use super::progress::ProgressSender;
use super::prompt::ServedPrompt;
use super::resource::ServedResource;
use super::sessions::SessionOwner;
use super::tasks::ServedTasks;

#[derive(Clone)]
pub(crate) struct ClientRequestHandler {
    pub(crate) calls: Arc<GraphCalls>,
    pub(crate) offers: Arc<Offers>,
    pub(crate) tasks: Arc<ServedTasks>,
    pub(crate) name: String,
}

pub(crate) struct Offers {
    pub(crate) resources: Vec<ServedResource>,
    pub(crate) prompts: Vec<ServedPrompt>,
}

impl ServerHandler for ClientRequestHandler {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        // A server without graphs still offers the empty list of tools that clients expect.
        capabilities.tools = Some(ToolsCapability::default());
        if self.calls.graphs.values().any(|served| served.is_long) {
            let tasks = ServerCapabilities::builder().enable_tasks().build();
            capabilities.extensions = tasks.extensions;
        }
        if !self.offers.resources.is_empty() {
            capabilities.resources = Some(ResourcesCapability::default());
        }
        if !self.offers.prompts.is_empty() {
            capabilities.prompts = Some(PromptsCapability::default());
        }
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
        let Some(place) = self.calls.try_acquire() else {
            return Ok(failed("the server is busy: call again later".to_owned()).into());
        };
        let call = match &request.request_state {
            Some(state) => {
                let open = self.calls.reopen((&tool, &SessionOwner::of_context(&context)), &served, state).await;
                let open = open.map_err(|why| ErrorData::invalid_params(why, None))?;
                match GraphCalls::answers(&open.questions, &request.input_responses.unwrap_or_default()) {
                    Some(input) => {
                        PreparedCall { tool, served, thread: open.thread, input, early: None, asked: open.asked }
                    }
                    None => return self.input_required(&tool, &open, &context),
                }
            }
            None => match GraphCalls::prepare(&served, request.arguments) {
                Ok((thread, input)) => {
                    let (early, asked) = (request.input_responses, AskedQuestions::default());
                    PreparedCall { tool, served, thread, input, early, asked }
                }
                Err(why) => return Ok(failed(why).into()),
            },
        };
        let knows_tasks = context.client_capabilities().is_some_and(|client| client.supports_tasks());
        if call.served.is_long && knows_tasks {
            let task = self.tasks.start(SessionOwner::of_context(&context), self.calls.clone(), call, place);
            return Ok(CreateTaskResult::new(task).into());
        }
        // A session without messages ends, even if a call is in progress.
        tokio::select! {
            answer = self.run_call(call, &context) => answer,
            never = keep_session(&context.peer), if is_old(&context) => match never {},
        }
    }

    async fn list_resources(
        &self,
        asked: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (resources, next) = page(self.offers.resources.iter().filter_map(ServedResource::listed), asked)?;
        Ok(ListResourcesResult { next_cursor: next, ..ListResourcesResult::with_all_items(resources) })
    }

    async fn list_resource_templates(
        &self,
        asked: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let (templates, next) = page(self.offers.resources.iter().filter_map(ServedResource::listed_template), asked)?;
        Ok(ListResourceTemplatesResult { next_cursor: next, ..ListResourceTemplatesResult::with_all_items(templates) })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &*request.uri;
        let data = || Some(json!({ "uri": uri }));
        // A plain resource comes before a template that also has its URI.
        let (plain, templates): (Vec<_>, Vec<_>) =
            self.offers.resources.iter().partition(|resource| !resource.is_template());
        let found = plain.into_iter().chain(templates).find_map(|it| Some((it, it.parameters(uri)?)));
        let unknown = || ErrorData::resource_not_found(format!("Resource not found: {uri}"), data());
        let (resource, query) = found.ok_or_else(unknown)?;
        let read = resource.read(uri, &query).map_err(|why| ErrorData::invalid_params(why, data()))?;
        self.make_offer(read, &context).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        asked: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (prompts, next) = page(self.offers.prompts.iter().map(ServedPrompt::listed), asked)?;
        Ok(ListPromptsResult { next_cursor: next, ..ListPromptsResult::with_all_items(prompts) })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let invalid = |why: String| ErrorData::invalid_params(why, None);
        let found = self.offers.prompts.iter().find(|prompt| prompt.name() == request.name);
        let prompt = found.ok_or_else(|| invalid(format!("Unknown prompt: {}", request.name)))?;
        let arguments = prompt.arguments(request.arguments).map_err(invalid)?;
        self.make_offer(prompt.messages(arguments), &context).await.map(Into::into)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let manager = self.tasks.manager(&request.task_id, &SessionOwner::of_context(&context));
        manager.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let manager = self.tasks.manager(&request.task_id, &SessionOwner::of_context(&context));
        manager.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let manager = self.tasks.manager(&request.task_id, &SessionOwner::of_context(&context));
        manager.cancel_task(&request.task_id)
    }
}

/// The interval of pings during a call. A session ends after five minutes without messages.
const PING: Duration = Duration::from_mins(1);
/// The time within which a client must respond to a ping.
const PONG: Duration = Duration::from_mins(2);

/// Keeps the session of a call alive while its client responds. Otherwise, the end of the session cancels the call.
async fn keep_session(client: &Peer<RoleServer>) -> Infallible {
    loop {
        sleep(PING).await;
        let ping = ServerRequest::PingRequest(PingRequest::default());
        if !matches!(timeout(PONG, client.send_request(ping)).await, Ok(Ok(_) | Err(ServiceError::McpError(_)))) {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns true if the protocol of the client has sessions, and the server asks its questions in the middle of a call.
fn is_old(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_none_or(|version| version.has_initialize())
}

impl ClientRequestHandler {
    /// Makes a resource or a prompt. This counts as a concurrent call.
    async fn make_offer<T>(
        &self,
        made: impl Future<Output = Result<T, NodeError>>,
        context: &RequestContext<RoleServer>,
    ) -> Result<T, ErrorData> {
        let failed = |why: String| ErrorData::internal_error(why, None);
        let Some(_place) = self.calls.try_acquire() else {
            return Err(failed("the server is busy: call again later".to_owned()));
        };
        // After a panic, rmcp would not send a response to the client.
        let made = AssertUnwindSafe(made).catch_unwind();
        tokio::select! {
            made = made => match made {
                Ok(made) => made.map_err(|error| failed(error.to_string())),
                Err(_) => Err(failed("the server's function panicked".to_owned())),
            },
            () = context.ct.cancelled() => Err(failed("the request was cancelled".to_owned())),
        }
    }

    /// Runs a call while its client waits.
    async fn run_call(
        &self,
        call: PreparedCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let PreparedCall { tool, served, thread, mut input, mut early, mut asked } = call;
        let progress = context.meta.get_progress_token().map(|token| ProgressSender::to(context.peer.clone(), token));
        let outcome = loop {
            let event_sink = progress.as_ref().map(|progress| progress.sink.clone());
            let outcome = self.calls.run_thread(&served, &thread, input, event_sink, context.ct.clone()).await;
            if let (CallOutcome::Asks(questions), Some(early)) = (&outcome, early.take())
                && let Some(answered) = GraphCalls::answers(questions, &early)
            {
                input = answered;
                continue;
            }
            let CallOutcome::Asks(questions) = outcome else { break outcome };
            let answered = if let Some(next) = std::mem::take(&mut asked).next(&questions, self.calls.lasts) {
                asked = next;
                if !is_old(context) {
                    break CallOutcome::Asks(questions);
                }
                self.ask_in_time(&questions, asked.remaining(), context).await
            } else {
                Err(self.calls.unanswered())
            };
            match answered {
                Ok(answered) => input = answered,
                Err(why) => {
                    self.calls.delete_thread(&thread).await;
                    break CallOutcome::Done(failed(why));
                }
            }
        };
        if let Some(progress) = progress {
            progress.finish().await;
        }
        match outcome {
            CallOutcome::Done(result) => Ok(result.into()),
            CallOutcome::Asks(questions) => {
                let open = PendingCall { thread, questions, asked };
                let asked = self.input_required(&tool, &open, context);
                if asked.is_err() {
                    self.calls.delete_thread(&open.thread).await;
                }
                asked
            }
        }
    }

    /// Returns the questions to the client. The client calls the tool again with the answers.
    fn input_required(
        &self,
        tool: &str,
        open: &PendingCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = context.client_capabilities();
        let requests = elicitation::requests(&open.questions, client.as_ref())?;
        let state = self.calls.seal((tool, &SessionOwner::of_context(context)), open);
        let state = state.map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(InputRequiredResult::new(Some(requests), Some(state)).into())
    }

    /// Asks a client with an older protocol while its call waits, until the call is cancelled or takes too long.
    async fn ask_in_time(
        &self,
        questions: &[Question],
        remaining: Duration,
        context: &RequestContext<RoleServer>,
    ) -> Result<DynInput, String> {
        tokio::select! {
            answered = timeout(remaining, self.ask_now(questions, context)) => {
                answered.unwrap_or_else(|_| Err(self.calls.unanswered()))
            }
            () = context.ct.cancelled() => Err("the call was cancelled".to_owned()),
        }
    }

    async fn ask_now(&self, questions: &[Question], context: &RequestContext<RoleServer>) -> Result<DynInput, String> {
        if context.client_capabilities().is_none_or(|client| client.elicitation.is_none()) {
            return Err("the graph asks a question, but this client does not support elicitation".to_owned());
        }
        let mut responses = BTreeMap::new();
        for (key, question) in elicitation::keys(questions) {
            let request: ElicitRequest =
                serde_json::from_value(elicitation::request(question)).map_err(|error| error.to_string())?;
            let answer = context.peer.send_request(ServerRequest::ElicitRequest(request)).await;
            let ClientResult::ElicitResult(answer) = answer.map_err(|error| error.to_string())? else {
                return Err("the client returned no answer to the question".to_owned());
            };
            responses.insert(key, serde_json::to_value(answer).map_err(|error| error.to_string())?);
        }
        GraphCalls::answers(questions, &responses).ok_or_else(|| "the answer is invalid".to_owned())
    }
}

/// The number of items in a page of a list.
const PAGE: usize = 100;

/// Returns a page of a list, and the cursor of the next page. A cursor is the number of its first item.
fn page<T>(
    mut items: impl Iterator<Item = T>,
    asked: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let invalid =
        |cursor: &str| ErrorData::invalid_params(format!("the cursor `{cursor}` is not one of this list"), None);
    let start = match asked.and_then(|asked| asked.cursor) {
        Some(cursor) => cursor.parse().map_err(|_| invalid(&cursor))?,
        None => 0_usize,
    };
    let taken = items.by_ref().skip(start).take(PAGE).collect();
    Ok((taken, items.next().map(|_| (start + PAGE).to_string())))
}
