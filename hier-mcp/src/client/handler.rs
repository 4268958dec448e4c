//! Requests and notifications from the server. Before protocol 2026-07-28 they arrive in the middle of a call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, CustomResult, ErrorCode, ErrorData, Implementation,
    ServerNotification, ServerRequest, TASKS_EXTENSION_ID,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service};
use serde_json::{Value, json};

use super::answer;
use super::options::ClientOptions;
use super::question::RequestedInput;

pub(crate) struct ServerRequestHandler {
    options: ClientOptions,
    server: String,
    info: ClientConfig,
    stale: Arc<AtomicBool>,
    callbacks: Mutex<Callbacks>,
}

/// The calls of durable runs in progress, during which the client refuses the server's requests.
#[derive(Default)]
struct Callbacks {
    durable: usize,
    /// The methods of the refused requests.
    refused: Vec<String>,
}

/// A guard for a call of a durable run.
pub(crate) struct DurableCall<'a> {
    handler: &'a ServerRequestHandler,
    /// Number of requests that were refused before the call began.
    before: usize,
}

impl DurableCall<'_> {
    /// Returns the last request of the server that was refused since this call began. The request may belong to another
    /// durable call that is in progress, because servers do not name the call.
    pub(crate) fn refused(&self) -> Option<String> {
        self.handler.callbacks().refused.get(self.before..)?.last().cloned()
    }
}

impl Drop for DurableCall<'_> {
    fn drop(&mut self) {
        let mut callbacks = self.handler.callbacks();
        callbacks.durable -= 1;
        if callbacks.durable == 0 {
            callbacks.refused.clear();
        }
    }
}

impl ServerRequestHandler {
    pub(crate) fn new(options: ClientOptions, server: &str, stale: Arc<AtomicBool>) -> Self {
        let mut offered = json!({"elicitation": {"form": {}, "url": {}}, "extensions": {TASKS_EXTENSION_ID: {}}});
        if options.sampling.is_some() {
            offered["sampling"] = json!({});
        }
        if !options.roots.is_empty() {
            offered["roots"] = json!({});
        }
        // The JSON has exactly these fields.
        let capabilities: ClientCapabilities = serde_json::from_value(offered).unwrap_or_default();
        let info = ClientConfig::new(capabilities, Implementation::new("hier", env!("CARGO_PKG_VERSION")));
        Self { options, server: server.to_owned(), info, stale, callbacks: Mutex::default() }
    }

    fn callbacks(&self) -> std::sync::MutexGuard<'_, Callbacks> {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable_call(&self) -> DurableCall<'_> {
        let mut callbacks = self.callbacks();
        callbacks.durable += 1;
        DurableCall { handler: self, before: callbacks.refused.len() }
    }

    /// Returns true if the client has offered to answer requests of this method.
    fn offers(&self, method: &str) -> bool {
        match method {
            "elicitation/create" => true,
            "sampling/createMessage" => self.options.sampling.is_some(),
            "roots/list" => !self.options.roots.is_empty(),
            _ => false,
        }
    }

    async fn answer(&self, request: Value) -> Result<Value, ErrorData> {
        let method = request["method"].as_str().unwrap_or_default();
        if !self.offers(method) {
            let reason = match method {
                "sampling/createMessage" => answer::lacks_model(&self.server),
                other => format!("this client does not answer `{other}`"),
            };
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None));
        }
        let asked = RequestedInput::read(&request).map_err(|reason| ErrorData::invalid_params(reason, None))?;
        if let RequestedInput::Roots = asked {
            return Ok(answer::roots(&self.options.roots));
        }
        {
            let mut callbacks = self.callbacks();
            if callbacks.durable > 0 {
                let what = asked.method();
                callbacks.refused.push(what.to_owned());
                return Err(ErrorData::invalid_request(
                    format!(
                        "this client cannot answer `{what}` during this call, because another process may resume the run"
                    ),
                    None,
                ));
            }
        }
        answer::answer_now(&self.options, &self.server, None, asked)
            .await
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

impl Service<RoleClient> for ServerRequestHandler {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if matches!(request, ServerRequest::PingRequest(_)) {
            return Ok(ClientResult::CustomResult(CustomResult::new(json!({}))));
        }
        let request =
            serde_json::to_value(&request).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        self.answer(request).await.map(|answer| ClientResult::CustomResult(CustomResult::new(answer)))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
            self.stale.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        self.info.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another call that begins later does not report the request as its own.
    #[tokio::test]
    async fn refused_requests_belong_to_the_calls_in_progress() {
        let handler = ServerRequestHandler::new(ClientOptions::default(), "files", Arc::default());
        let request = json!({"method": "elicitation/create", "params": {"message": "name?", "requestedSchema": {}}});
        let first = handler.durable_call();
        let error = handler.answer(request).await.expect_err("the run may be resumed by another process");
        assert!(error.message.contains("cannot answer `elicitation/create`"), "{error}");
        let second = handler.durable_call();
        assert_eq!((first.refused().as_deref(), second.refused()), (Some("elicitation/create"), None));
        drop(first);
        assert_eq!(second.refused(), None);
        drop(second);
        assert_eq!(handler.durable_call().refused(), None);
    }

    /// The code tells the server not to ask again.
    #[tokio::test]
    async fn requests_that_the_client_does_not_offer_are_unknown_methods() {
        let handler = ServerRequestHandler::new(ClientOptions::default(), "files", Arc::default());
        for method in ["sampling/createMessage", "roots/list", "tasks/get"] {
            let error = handler.answer(json!({"method": method, "params": {}})).await.expect_err("not offered");
            assert_eq!(error.code, ErrorCode::METHOD_NOT_FOUND, "{error}");
        }
        let asked = json!({"method": "elicitation/create", "params": {"message": "name?"}});
        let error = handler.answer(asked).await.expect_err("it has no schema");
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{error}");
        let options = ClientOptions { roots: vec!["file:///srv".to_owned()], ..ClientOptions::default() };
        let handler = ServerRequestHandler::new(options, "files", Arc::default());
        let roots = handler.answer(json!({"method": "roots/list"})).await.expect("offered");
        assert_eq!(roots, json!({"roots": [{"uri": "file:///srv"}]}));
    }
}
