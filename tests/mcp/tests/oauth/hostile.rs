//! Servers that misuse the client: redirects, private addresses, and answers that are not OAuth.

use std::process::Command as Process;

use hier_mcp::McpAuth;

use crate::server::{REDIRECT, serve};
use crate::{authorized, client, read, visit};

/// Another origin could be any service in the client's network.
#[tokio::test]
async fn redirect_of_metadata_to_another_origin_is_not_followed() {
    let (server, url) = serve().await;
    let (_other, other_url) = serve().await;
    let to = other_url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    server.lock().unwrap().redirect = Some(to);
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    let refused = auth.authorization_url().await.unwrap_err().to_string();
    assert!(refused.contains("redirect to non-same-origin URL rejected"), "{refused}");
}

#[tokio::test]
async fn metadata_at_a_private_address_are_not_read() {
    let (server, url) = serve().await;
    server.lock().unwrap().has_no_metadata = true;
    for address in ["http://169.254.169.254/latest", "http://10.0.0.9/metadata", "file:///etc/passwd"] {
        server.lock().unwrap().metadata = Some(address.to_owned());
        let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
        let refused = auth.authorization_url().await.unwrap_err().to_string();
        assert!(refused.contains("the server publishes no OAuth metadata"), "{refused}");
    }
    server.lock().unwrap().has_no_metadata = false;
    server.lock().unwrap().metadata = None;
    for address in ["http://169.254.169.254", "http://10.0.0.9"] {
        server.lock().unwrap().issuer = address.to_owned();
        let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
        let refused = auth.authorization_url().await.unwrap_err().to_string();
        assert!(refused.contains(address), "{refused}");
    }
}

#[tokio::test]
#[ignore = "a process that another test starts"]
async fn child_process() {
    let url = std::env::var("HOSTILE_SERVER").expect("started by the test below");
    let refused = McpAuth::builder(&url, REDIRECT).build().unwrap().authorization_url().await.unwrap_err().to_string();
    assert!(refused.contains("http://10.0.0.9"), "{refused}");
    let auth = McpAuth::builder(&url, REDIRECT).allow_private_addresses().build().unwrap();
    authorized(&auth).await;
    assert_eq!(read(&client(&url, &auth)).await.unwrap(), "Be kind.");
}

/// The authorization server is at a private address, to which a proxy forwards requests. The environment of a process
/// names the proxy. The MCP server is at a loopback address, which may not name a private address by default.
#[tokio::test]
async fn private_address_is_used_if_it_is_allowed() {
    let (server, url) = serve().await;
    let proxy = url.trim_end_matches("/mcp").to_owned();
    {
        let mut known = server.lock().unwrap();
        known.metadata = Some(format!("{proxy}/.well-known/oauth-protected-resource/mcp"));
        (known.base, known.issuer) = ("http://10.0.0.9".to_owned(), "http://10.0.0.9".to_owned());
    }
    let mut process = Process::new(std::env::current_exe().unwrap());
    process.args(["--exact", "hostile::child_process", "--ignored", "--nocapture"]).env("HOSTILE_SERVER", url);
    for name in ["http_proxy", "HTTP_PROXY"] {
        process.env(name, &proxy);
    }
    for name in ["no_proxy", "NO_PROXY"] {
        process.env(name, "127.0.0.1");
    }
    for name in ["all_proxy", "ALL_PROXY", "REQUEST_METHOD"] {
        process.env_remove(name);
    }
    let ended = tokio::task::spawn_blocking(move || process.output().unwrap()).await.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let known = server.lock().unwrap();
    assert_eq!(known.granted.len(), 1);
}

#[tokio::test]
async fn token_endpoint_that_answers_html_is_described() {
    let (server, url) = serve().await;
    let auth = McpAuth::builder(&url, REDIRECT).build().unwrap();
    let began = auth.authorization_url().await.unwrap();
    let html = "<html><title>Log in</title>\u{1b}[2J</html>".to_owned();
    server.lock().unwrap().html = Some(html.clone());
    let refused = auth.finish(&visit(&began).await).await.unwrap_err().to_string();
    assert!(
        refused.contains("unexpected response Content-Type: \"text/html") && !refused.contains('\u{1b}'),
        "{refused}"
    );

    // A refresh keeps the tokens.
    server.lock().unwrap().html = None;
    authorized(&auth).await;
    server.lock().unwrap().access.clear();
    server.lock().unwrap().html = Some(html);
    let failed = read(&client(&url, &auth)).await.unwrap_err();
    assert!(failed.is_transient(), "{failed}");
    server.lock().unwrap().html = None;
    assert_eq!(read(&client(&url, &auth)).await.unwrap(), "Be kind.");
}
