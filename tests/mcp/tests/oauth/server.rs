//! An authorization server and the MCP server that it protects.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hier_agents::prelude::*;
use hier_core::CancellationToken;
use hier_mcp::{McpServer, ServedResource};
use oauth2::{PkceCodeChallenge, PkceCodeVerifier};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

pub(crate) const REDIRECT: &str = "http://127.0.0.1:1/callback";

/// The data of the authorization server.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) registered: usize,
    pub(crate) refreshed: usize,
    /// The number of refresh tokens that this server does not know, or that were used twice.
    pub(crate) refused: usize,
    /// The challenges of open codes.
    codes: HashMap<String, String>,
    pub(crate) access: HashSet<String>,
    pub(crate) refresh: HashSet<String>,
    /// The lifetimes of the next tokens in seconds. Defaults to an hour.
    pub(crate) lifetimes: Vec<u64>,
    issued: usize,
    /// The grant types of the tokens, in the order in which this server issued them.
    pub(crate) granted: Vec<(String, String)>,
    /// The token of the last request that was admitted.
    pub(crate) used: String,
    /// The names of the clients without a person, with their secrets.
    pub(crate) machines: HashMap<String, String>,
    /// Answers requests for tokens with this, as HTML.
    pub(crate) html: Option<String>,
    /// Redirects requests for metadata to this address.
    pub(crate) redirect: Option<String>,
    /// The URL of the metadata in the MCP server's challenge. Defaults to that of this server.
    pub(crate) metadata: Option<String>,
    /// Holds the next refresh.
    pub(crate) hold: Option<Arc<Hold>>,
    /// The address of this server, and the authorization server that it names.
    pub(crate) base: String,
    pub(crate) issuer: String,
    /// The MCP server whose tokens these are.
    pub(crate) resource: String,
    /// The authorization server whose tokens the MCP server accepts. Defaults to this one.
    pub(crate) trusted: Option<Server>,
    pub(crate) has_no_metadata: bool,
    /// Makes the token endpoint reject all clients.
    pub(crate) knows_no_client: bool,
    /// Makes the token endpoint fail.
    pub(crate) is_down: bool,
    /// The scopes of the last authorization.
    pub(crate) scopes: String,
    /// The scope that the MCP server misses in each token.
    pub(crate) missing_scope: Option<String>,
}

pub(crate) type Server = Arc<Mutex<Known>>;

/// A request that waits in the server.
#[derive(Default)]
pub(crate) struct Hold {
    pub(crate) arrived: Notify,
    pub(crate) open: Notify,
}

/// Returns the pairs of a query or a form.
fn pairs(text: &str) -> HashMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://127.0.0.1/?{text}")).unwrap();
    url.query_pairs().into_owned().collect()
}

async fn resource(Shared(server): Shared<Server>) -> Response {
    let known = server.lock().unwrap();
    if let Some(to) = &known.redirect {
        return (StatusCode::FOUND, [(header::LOCATION, to.clone())]).into_response();
    }
    if known.has_no_metadata {
        return StatusCode::NOT_FOUND.into_response();
    }
    Json(json!({"resource": known.resource, "authorization_servers": [known.issuer], "scopes_supported": ["read"]}))
        .into_response()
}

async fn authorization_server(Shared(server): Shared<Server>) -> Response {
    let known = server.lock().unwrap();
    if known.has_no_metadata {
        return StatusCode::NOT_FOUND.into_response();
    }
    let base = &known.base;
    Json(json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": ["read", "write", "admin"],
    }))
    .into_response()
}

async fn register(Shared(server): Shared<Server>, Json(asked): Json<Value>) -> Json<Value> {
    let mut known = server.lock().unwrap();
    known.registered += 1;
    assert_eq!(asked["redirect_uris"], json!([REDIRECT]));
    assert_eq!(asked["application_type"], "native");
    Json(json!({"client_id": format!("client-{}", known.registered), "redirect_uris": [REDIRECT]}))
}

/// The person agrees at once.
async fn authorize(Shared(server): Shared<Server>, request: Request) -> Response {
    let asked = pairs(request.uri().query().unwrap_or_default());
    let mut known = server.lock().unwrap();
    assert_eq!((&*asked["code_challenge_method"], &*asked["response_type"]), ("S256", "code"));
    assert_eq!(asked["resource"], known.resource);
    known.scopes.clone_from(&asked["scope"]);
    known.issued += 1;
    let code = format!("code-{}", known.issued);
    known.codes.insert(code.clone(), asked["code_challenge"].clone());
    let to = format!("{}?code={code}&state={}", asked["redirect_uri"], asked["state"]);
    (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
}

async fn token(Shared(server): Shared<Server>, form: String) -> Response {
    // Another process could use the same token meanwhile.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let asked = pairs(&form);
    let hold = if asked["grant_type"] == "refresh_token" { server.lock().unwrap().hold.take() } else { None };
    if let Some(hold) = hold {
        hold.arrived.notify_one();
        hold.open.notified().await;
    }
    let mut known = server.lock().unwrap();
    if known.is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if let Some(html) = &known.html {
        return axum::response::Html(html.clone()).into_response();
    }
    let refused = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    if known.knows_no_client {
        return refused("invalid_client");
    }
    assert_eq!(asked["resource"], known.resource);
    match &*asked["grant_type"] {
        "authorization_code" => {
            let verifier = PkceCodeVerifier::new(asked["code_verifier"].clone());
            let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier);
            if known.codes.remove(&asked["code"]).as_deref() != Some(challenge.as_str()) {
                return refused("invalid_grant");
            }
        }
        "client_credentials" => {
            let secret = known.machines.get(&asked["client_id"]);
            if secret.is_none_or(|secret| *secret != asked["client_secret"]) {
                return refused("invalid_client");
            }
            known.scopes = asked.get("scope").cloned().unwrap_or_default();
        }
        "refresh_token" => {
            if !known.refresh.remove(&asked["refresh_token"]) {
                // As servers do that detect stolen tokens.
                known.refused += 1;
                known.access.clear();
                known.refresh.clear();
                return refused("invalid_grant");
            }
            known.refreshed += 1;
        }
        _ => return refused("unsupported_grant_type"),
    }
    known.issued += 1;
    let number = known.issued;
    let (access, refresh) = (format!("access-{number}"), format!("refresh-{number}"));
    known.access.insert(access.clone());
    known.granted.push((asked["grant_type"].clone(), access.clone()));
    let is_machine = asked["grant_type"] == "client_credentials";
    if !is_machine {
        known.refresh.insert(refresh.clone());
    }
    let lifetime = if known.lifetimes.is_empty() { 3600 } else { known.lifetimes.remove(0) };
    let mut answer = json!({"access_token": access, "token_type": "Bearer", "expires_in": lifetime});
    if !is_machine {
        answer["refresh_token"] = refresh.into();
    }
    Json(answer).into_response()
}

async fn admit(Shared(server): Shared<Server>, headers: HeaderMap, request: Request, next: Next) -> Response {
    let given = headers.get(header::AUTHORIZATION).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let (trusted, missing, metadata) = {
        let known = server.lock().unwrap();
        let own = format!("{}/.well-known/oauth-protected-resource/mcp", known.base);
        let metadata = known.metadata.clone().unwrap_or(own);
        (known.trusted.clone().unwrap_or(server.clone()), known.missing_scope.clone(), metadata)
    };
    let token = given.strip_prefix("Bearer ").unwrap_or_default();
    let is_known = trusted.lock().unwrap().access.contains(token);
    if is_known && let Some(scope) = missing {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    if is_known {
        token.clone_into(&mut server.lock().unwrap().used);
        return next.run(request).await;
    }
    let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
}

#[derive(State, Clone, Default)]
struct Order {
    number: u32,
    text: String,
}

graph! {
    /// Looks an order up.
    Lookup<Order> = Graph { nodes: [look_up], edges: [START >> look_up >> END] }
}

async fn look_up(order: &Order) -> hier_core::Result<OrderUpdate> {
    Ok(Order::update().text(format!("order {}", order.number)))
}

/// Serves an MCP server and its authorization server.
pub(crate) async fn serve() -> (Server, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let mut known = Known { base: base.clone(), issuer: base.clone(), ..Known::default() };
    known.resource = format!("{base}/mcp");
    let server = Server::new(Mutex::new(known));
    let terms = ServedResource::new("shop://terms", "terms", "Be kind.");
    let mcp = McpServer::new().graph("lookup", Lookup::compile(), ()).resource(terms);
    let mcp =
        mcp.without_auth().router(CancellationToken::new()).unwrap().layer(from_fn_with_state(server.clone(), admit));
    let router = Router::new()
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(authorization_server))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .with_state(server.clone())
        .merge(mcp);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (server, format!("{base}/mcp"))
}
