//! Clients without a person.

use hier_mcp::{McpAuth, McpClient, McpError, SealKey};

use crate::server::{REDIRECT, Server, serve};
use crate::{client, read};

/// Starts a server that knows the client `desk`.
async fn served() -> (Server, String) {
    let (server, url) = serve().await;
    server.lock().unwrap().machines.insert("desk".to_owned(), "secret".to_owned());
    (server, url)
}

#[tokio::test]
async fn machine_needs_no_person() {
    let (server, url) = served().await;
    let auth = McpAuth::machine(&url, "desk", "secret").build().unwrap();
    let client = client(&url, &auth);
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    assert_eq!(server.lock().unwrap().scopes, "read");
    assert!(auth.is_authorized().await.unwrap());
    // A token that the server refuses is replaced, and one that has expired.
    server.lock().unwrap().access.clear();
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    server.lock().unwrap().lifetimes = vec![0];
    read(&crate::client(&url, &auth)).await.unwrap_err();
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    {
        let known = server.lock().unwrap();
        assert_eq!((known.registered, known.refused), (0, 0));
        assert!(known.granted.iter().all(|(grant, _)| grant == "client_credentials"));
    }
    for error in [auth.authorization_url().await.map(|_| ()), auth.finish(&format!("{REDIRECT}?code=1&state=1")).await]
    {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("authorizes itself, without a person: remove this call"), "{error}");
    }
}

#[tokio::test]
async fn refused_machine_is_described() {
    let (server, url) = served().await;
    let auth = McpAuth::machine(&url, "desk", "wrong").build().unwrap();
    let refused = read(&client(&url, &auth)).await.unwrap_err();
    assert!(matches!(&refused, McpError::Authorization { .. }), "{refused}");
    assert!(refused.to_string().contains("invalid_client") && !refused.to_string().contains("wrong"), "{refused}");

    let mistaken = McpAuth::machine(&url, "desk", "secret").client_id("desk").build().unwrap_err().to_string();
    assert!(mistaken.contains("`client_id` and `client_document` are for authorizations by a person"), "{mistaken}");

    // The MCP server accepts no token.
    let auth = McpAuth::machine(&url, "desk", "secret").build().unwrap();
    server.lock().unwrap().trusted = Some(serve().await.0);
    let refused = read(&client(&url, &auth)).await.unwrap_err();
    assert!(matches!(&refused, McpError::Authorization { .. }), "{refused}");
    assert!(refused.to_string().contains("the server rejects the token of the client `desk`"), "{refused}");
}

#[tokio::test]
async fn secret_of_a_machine_stays_with_its_authorization_server() {
    let (server, url) = served().await;
    let store = hier_core::store::MemoryStore::default();
    let machine = || McpAuth::machine(&url, "desk", "secret").store(store.clone(), SealKey::new([7; 32])).build();
    let client = |auth: &McpAuth| McpClient::http("shop", &url).oauth(auth).build().unwrap();
    assert_eq!(read(&client(&machine().unwrap())).await.unwrap(), "Be kind.");
    let (other, _) = serve().await;
    other.lock().unwrap().resource.clone_from(&url);
    server.lock().unwrap().issuer = other.lock().unwrap().base.clone();
    let refused = read(&client(&machine().unwrap())).await.unwrap_err().to_string();
    assert!(
        refused.contains("call `McpAuth::forget` if you trust the new") && !refused.contains("secret"),
        "{refused}"
    );
    assert!(other.lock().unwrap().granted.is_empty());
}
