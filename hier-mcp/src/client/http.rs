//! The HTTP client of a connection.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};

use super::options::ClientOptions;

/// Creates the HTTP client and its configuration, with limits and without redirects to other hosts.
pub(super) fn http(
    url: &str,
    bearer: Option<&str>,
    headers: &[(String, String)],
    options: &ClientOptions,
) -> Result<(reqwest::Client, StreamableHttpClientTransportConfig), String> {
    let mut given = HashMap::new();
    for (name, value) in headers {
        let header = HeaderName::from_str(name).map_err(|error| format!("the header `{name}`: {error}"))?;
        // The value may be a secret.
        let mut value = HeaderValue::from_str(value).map_err(|_| format!("invalid value of the header `{name}`"))?;
        value.set_sensitive(true);
        given.insert(header, value);
    }
    let client = reqwest::Client::builder()
        .connect_timeout(options.timeout)
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::custom(|attempt| {
            let keeps = matches!(attempt.status().as_u16(), 307 | 308);
            let first = attempt.previous().first();
            let same = first.is_some_and(|first| first.origin() == attempt.url().origin());
            if keeps && same && attempt.previous().len() <= 5 { attempt.follow() } else { attempt.stop() }
        }))
        .build()
        .map_err(|error| error.to_string())?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(given)
        .max_sse_event_size(options.max_message)
        .max_json_response_size(options.max_message)
        .reinit_on_expired_session(false);
    if let Some(bearer) = bearer {
        config = config.auth_header(bearer);
    }
    Ok((client, config))
}

/// An HTTP client that assigns each refusal of a server to its request.
///
/// A server that refuses a request before it reads the request, for example after a restart because it does not know
/// the session, sends an error without the id of the request. Without the id, the request would wait until it times
/// out.
#[derive(Clone)]
pub(super) struct SessionHttp<C>(pub(super) C);

type HttpResult<T, C> = Result<T, StreamableHttpError<<C as StreamableHttpClient>::Error>>;
type Headers = HashMap<HeaderName, HeaderValue>;

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for SessionHttp<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> HttpResult<StreamableHttpPostResponse, C> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, auth, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> HttpResult<StreamableHttpPostResponse, C> {
        let has_session = session.is_some();
        let request =
            if let ClientJsonRpcMessage::Request(request) = &message { Some(request.id.clone()) } else { None };
        let sent = self.0.post_message_with_response_limits(uri, message, session, auth, headers, limits);
        match (sent.await?, request) {
            (StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(mut refused), session), Some(request))
                if refused.id.as_ref() != Some(&request) =>
            {
                if has_session && refused.error.message.to_ascii_lowercase().contains("session") {
                    return Err(StreamableHttpError::SessionExpired);
                }
                refused.id = Some(request);
                Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(refused), session))
            }
            (response, _) => Ok(response),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> HttpResult<(), C> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> HttpResult<BoxedSseResponse, C> {
        self.0.get_stream(uri, session, last_event, auth, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
        largest: usize,
    ) -> HttpResult<BoxedSseResponse, C> {
        self.0.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, largest).await
    }
}
