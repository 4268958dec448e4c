//! OAuth of a client, at an authorization server of the tests.

mod attacks;
mod changes;
mod hostile;
mod machine;
mod server;

use hier_core::store::{MemoryStore, Search, StoreExt};
use hier_mcp::{McpAuth, McpClient, McpError, SealKey};

use server::{REDIRECT, serve};

/// Follows the URL as the person's browser does, and returns where it ends.
async fn visit(url: &str) -> String {
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let answer = browser.get(url).send().await.unwrap();
    assert_eq!(answer.status(), 302, "{url}");
    answer.headers()["location"].to_str().unwrap().to_owned()
}

async fn authorized(auth: &McpAuth) {
    let url = auth.authorization_url().await.unwrap();
    auth.finish(&visit(&url).await).await.unwrap();
}

fn client(url: &str, auth: &McpAuth) -> McpClient {
    McpClient::http("shop", url).oauth(auth).build().unwrap()
}

async fn read(client: &McpClient) -> Result<String, McpError> {
    client.read("shop://terms").await.map(|content| content.text())
}

fn stored(url: &str, store: &MemoryStore, key: u8) -> McpAuth {
    McpAuth::builder(url, REDIRECT).store(store.clone(), SealKey::new([key; 32])).account("ada").build().unwrap()
}

#[tokio::test]
async fn authorized_client_reads() {
    let (server, url) = serve().await;
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    let client = client(&url, &auth);
    assert!(!auth.is_authorized().await.unwrap());
    let refused = read(&client).await.unwrap_err();
    assert!(matches!(refused, McpError::Authorization { .. }), "{refused}");
    assert!(refused.to_string().contains("send the person to `McpAuth::authorization_url`"), "{refused}");
    authorized(&auth).await;
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    assert_eq!(server.lock().unwrap().registered, 1);

    // Without tokens, the next connection needs a new authorization, and the client registers itself again.
    auth.forget().await.unwrap();
    client.close().await;
    assert!(matches!(read(&client).await, Err(McpError::Authorization { .. })));
    authorized(&auth).await;
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    assert_eq!(server.lock().unwrap().registered, 2);
}

#[tokio::test]
async fn expired_tokens_are_refreshed_and_revoked_ones_end_the_authorization() {
    let (server, url) = serve().await;
    server.lock().unwrap().lifetimes = vec![0];
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    authorized(&auth).await;
    let client = client(&url, &auth);
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    assert_eq!(server.lock().unwrap().refreshed, 1);

    // A token that the server refuses early is refreshed, too.
    server.lock().unwrap().access.clear();
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
    assert_eq!(server.lock().unwrap().refreshed, 2);

    server.lock().unwrap().access.clear();
    server.lock().unwrap().refresh.clear();
    for _ in 0..2 {
        let refused = read(&client).await.unwrap_err();
        assert!(matches!(refused, McpError::Authorization { .. }), "{refused}");
        assert!(refused.to_string().contains("`McpAuth::authorization_url`"), "{refused}");
        assert!(!auth.is_authorized().await.unwrap());
    }
    authorized(&auth).await;
    assert_eq!(read(&client).await.unwrap(), "Be kind.");
}

#[tokio::test]
async fn tokens_are_stored_encrypted_for_other_processes() {
    let (server, url) = serve().await;
    let store = MemoryStore::default();
    let (first, second) = (stored(&url, &store, 7), stored(&url, &store, 7));
    // One process begins, another finishes.
    assert!(!second.is_authorized().await.unwrap());
    let began = first.authorization_url().await.unwrap();
    second.finish(&visit(&began).await).await.unwrap();
    for auth in [&first, &second, &stored(&url, &store, 7)] {
        assert!(auth.is_authorized().await.unwrap());
        assert_eq!(read(&client(&url, auth)).await.unwrap(), "Be kind.");
    }
    assert_eq!(server.lock().unwrap().registered, 1);

    let items = store.search(Search::below(["mcp_oauth"])).await.unwrap();
    assert!(!items.is_empty());
    for item in items {
        let text = serde_json::to_string(&item.value).unwrap();
        assert!(!text.contains("access-") && !text.contains("refresh-") && !text.contains("client-"), "{text}");
    }
    let other = stored(&url, &store, 8);
    let refused = other.is_authorized().await.unwrap_err().to_string();
    assert!(refused.contains("were encrypted with another key"), "{refused}");
    let ben = McpAuth::builder(&url, REDIRECT).store(store.clone(), SealKey::new([7; 32])).account("ben");
    assert!(!ben.build().unwrap().is_authorized().await.unwrap());
}

#[tokio::test]
async fn wrong_returns_are_refused() {
    let (_, url) = serve().await;
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    let began = auth.authorization_url().await.unwrap();
    let refused = async |url: String| auth.finish(&url).await.unwrap_err().to_string();
    let said = refused(format!("{REDIRECT}?error=access_denied&error_description=No.")).await;
    assert!(said.contains("access_denied: No."), "{said}");
    assert!(refused(format!("{REDIRECT}?state=1")).await.contains("missing code"));
    let said = refused(format!("{REDIRECT}?code=1&state=unknown")).await;
    assert!(said.contains("does not belong to an open authorization"), "{said}");
    let returned = visit(&began).await;
    auth.finish(&returned).await.unwrap();
    assert!(refused(returned).await.contains("or was already used"));
    assert!(auth.is_authorized().await.unwrap());
}

#[tokio::test]
async fn mistakes_of_options_and_servers_are_described() {
    let (server, url) = serve().await;
    server.lock().unwrap().has_no_metadata = true;
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    let said = auth.authorization_url().await.unwrap_err().to_string();
    assert!(said.contains("the server publishes no OAuth metadata"), "{said}");
    let said = McpAuth::builder("shop", REDIRECT).build().unwrap_err().to_string();
    assert!(said.contains("the URL `shop`"), "{said}");
    let said = McpClient::http("shop", "https://other.example").oauth(&auth).build().unwrap_err().to_string();
    assert!(said.contains("and this server is `https://other.example`"), "{said}");
    for builder in
        [McpClient::http("shop", &url).bearer("t").oauth(&auth), McpClient::http("shop", &url).oauth(&auth).bearer("t")]
    {
        assert!(builder.build().unwrap_err().to_string().contains("`oauth` and `bearer` exclude each other"));
    }
    let said = McpClient::stdio("shop", "/bin/shop").oauth(&auth).build().unwrap_err().to_string();
    assert!(said.contains("`oauth` applies to URLs"), "{said}");
}
