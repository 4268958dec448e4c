//! Servers that move, fail and refuse, and processes that act at once.

use hier_agents::prelude::*;
use hier_core::store::MemoryStore;
use hier_mcp::{McpAuth, McpClient, McpError};
use hier_mcp_tests::agent::{Helper, answers, desk};
use serde_json::json;

use crate::server::{REDIRECT, Server, serve};
use crate::{authorized, client, read, stored, visit};

/// Makes the MCP server name another authorization server, which is returned.
async fn moved(server: &Server) -> Server {
    let (other, _) = serve().await;
    let mut known = server.lock().unwrap();
    other.lock().unwrap().resource.clone_from(&known.resource);
    known.issuer.clone_from(&other.lock().unwrap().base);
    known.trusted = Some(other.clone());
    other.clone()
}

async fn looked_up(client: &McpClient) -> Result<String, RunError> {
    let context = desk(client, [Message::call("lookup", json!({"number": 7})), Message::assistant("Done.")]);
    let out = Helper::compile().checkpointer(MemorySaver::new()).invoke(Message::user("Go.")).thread("t");
    Ok(answers(&out.context(context).await?).remove(0))
}

#[tokio::test]
async fn call_with_an_expired_token_is_made_once_with_a_new_one() {
    let (server, url) = serve().await;
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    authorized(&auth).await;
    let client = client(&url, &auth);
    assert!(looked_up(&client).await.unwrap().contains("order 7"));
    server.lock().unwrap().access.clear();
    assert!(looked_up(&client).await.unwrap().contains("order 7"));
    assert_eq!(server.lock().unwrap().refreshed, 1);

    server.lock().unwrap().access.clear();
    server.lock().unwrap().refresh.clear();
    let failed = looked_up(&client).await.unwrap_err().to_string();
    assert!(failed.contains("send the person to `McpAuth::authorization_url`"), "{failed}");
    authorized(&auth).await;
    assert!(looked_up(&client).await.unwrap().contains("order 7"));
}

/// The authorization server ends the authorization if a refresh token is used twice.
#[tokio::test]
async fn processes_refresh_one_after_the_other() {
    let (server, url) = serve().await;
    let store = MemoryStore::default();
    server.lock().unwrap().lifetimes = vec![0];
    authorized(&stored(&url, &store, 7)).await;
    let clients = [1, 2, 3].map(|_| client(&url, &stored(&url, &store, 7)));
    let [first, second, third] = &clients;
    let read = tokio::join!(read(first), read(second), read(third));
    assert_eq!(
        (read.0.unwrap(), read.1.unwrap(), read.2.unwrap()),
        ("Be kind.".into(), "Be kind.".into(), "Be kind.".into())
    );
    let known = server.lock().unwrap();
    assert_eq!(known.refused, 0);
    assert!((1..=3).contains(&known.refreshed), "{}", known.refreshed);
}

/// A connection uses the tokens that another process has stored meanwhile.
#[tokio::test]
async fn connection_uses_the_authorization_of_another_process() {
    let (server, url) = serve().await;
    let store = MemoryStore::default();
    let (first, second) = (stored(&url, &store, 7), stored(&url, &store, 7));
    authorized(&first).await;
    let client = client(&url, &second);
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    let other = moved(&server).await;
    authorized(&first).await;
    assert_eq!(other.lock().unwrap().registered, 1);
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    assert!(looked_up(&client).await.unwrap().contains("order 7"));
    assert_eq!((server.lock().unwrap().refused, other.lock().unwrap().refused), (0, 0));
}

#[tokio::test]
async fn tokens_are_never_sent_to_another_authorization_server() {
    let (server, url) = serve().await;
    let store = MemoryStore::default();
    let auth = stored(&url, &store, 7);
    authorized(&auth).await;
    let client = client(&url, &auth);
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    let begun = auth.authorization_url().await.unwrap();

    let other = moved(&server).await;
    let refused = read(&client).await.unwrap_err();
    assert!(matches!(refused, McpError::Authorization { .. }), "{refused}");
    assert!(!auth.is_authorized().await.unwrap());
    // An authorization that began at the other server cannot be completed here.
    let refused = auth.finish(&visit(&begun).await).await.unwrap_err().to_string();
    assert!(refused.contains("now names another authorization server: begin again"), "{refused}");
    authorized(&auth).await;
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    assert_eq!((server.lock().unwrap().refused, other.lock().unwrap().refused), (0, 0));
    assert_eq!(other.lock().unwrap().registered, 1, "each server knows its own client");
}

#[tokio::test]
async fn secret_of_a_client_stays_with_its_authorization_server() {
    let (server, url) = serve().await;
    let auth = McpAuth::builder(&url, REDIRECT).client_secret("desk", "secret").build().unwrap();
    authorized(&auth).await;
    assert_eq!(read(&client(&url, &auth)).await.unwrap(), "Be kind.");
    moved(&server).await;
    let refused = auth.authorization_url().await.unwrap_err().to_string();
    assert!(refused.contains("the client `desk` is registered at"), "{refused}");
    assert!(refused.contains("call `McpAuth::forget` if you trust the new"), "{refused}");
    assert!(!refused.contains("secret"), "{refused}");
    auth.forget().await.unwrap();
    authorized(&auth).await;
    assert_eq!(read(&client(&url, &auth)).await.unwrap(), "Be kind.");
}

#[tokio::test]
async fn failing_refresh_keeps_the_tokens() {
    let (server, url) = serve().await;
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    authorized(&auth).await;
    let client = client(&url, &auth);
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    server.lock().unwrap().access.clear();
    server.lock().unwrap().is_down = true;
    let failed = read(&client).await.unwrap_err();
    assert!(failed.is_transient(), "{failed}");
    assert!(auth.is_authorized().await.unwrap());
    server.lock().unwrap().is_down = false;
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
}

/// Some authorization servers delete the registrations of clients after some time.
#[tokio::test]
async fn deleted_registration_is_described() {
    let (server, url) = serve().await;
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    authorized(&auth).await;
    let connected = client(&url, &auth);
    assert_eq!(read(&connected).await.unwrap(), "Be kind.");
    server.lock().unwrap().access.clear();
    server.lock().unwrap().knows_no_client = true;
    for client in [connected.clone(), client(&url, &auth)] {
        let refused = read(&client).await.unwrap_err();
        assert!(matches!(refused, McpError::Authorization { .. }) && !refused.is_transient(), "{refused}");
        assert!(refused.to_string().contains("call `McpAuth::forget`, and authorize the client again"), "{refused}");
    }
    server.lock().unwrap().knows_no_client = false;
    auth.forget().await.unwrap();
    authorized(&auth).await;
    assert_eq!(read(&connected).await.unwrap(), "Be kind.");
    assert_eq!(server.lock().unwrap().registered, 2);
}

#[tokio::test]
async fn missing_scope_is_requested_in_the_next_authorization() {
    let (server, url) = serve().await;
    let store = MemoryStore::default();
    let auth = stored(&url, &store, 7);
    authorized(&auth).await;
    let client = client(&url, &auth);
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    assert_eq!(server.lock().unwrap().scopes, "read");
    server.lock().unwrap().missing_scope = Some("write".to_owned());
    for _ in 0..2 {
        let refused = read(&client).await.unwrap_err();
        assert!(refused.to_string().contains("the token lacks the scope `write`"), "{refused}");
        assert!(matches!(refused, McpError::Authorization { scope: Some(scope), .. } if scope == "write"));
    }
    assert!(auth.is_authorized().await.unwrap());
    // Another process may show the person where to go.
    authorized(&stored(&url, &store, 7)).await;
    assert_eq!(server.lock().unwrap().scopes, "read write");
    server.lock().unwrap().missing_scope = None;
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    authorized(&auth).await;
    assert_eq!(server.lock().unwrap().scopes, "read");
}
