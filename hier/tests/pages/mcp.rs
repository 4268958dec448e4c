//! The code of `docs/mcp.md`.

use hier::CancellationToken;
use hier::mcp::{McpAuth, McpClient, McpServer, SealKey};
use hier::prelude::*;

struct Desk {
    base: BaseContext,
    crm: McpClient,
    docs: McpClient,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Looks an order up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("{order}: 30 euros")
}

fn clients(token: &str) -> hier::Result<()> {
    type Chat = BaseState;

    let crm = McpClient::stdio("crm", "/usr/local/bin/crm-server")
        .env("CRM_TOKEN", token)
        .prefix("crm_")
        .approve(["refund"])
        .build()?;
    let docs = McpClient::http("docs", "https://docs.example.com/mcp").bearer(token).build()?;

    graph! {
        Support<Chat, Desk> = Agent { tools: [lookup, |desk| &desk.crm, |desk| &desk.docs] }
    }
    Ok(())
}

async fn authorize(store: impl hier::store::Store, key: [u8; 32], returned: String) -> hier::Result<()> {
    let auth = McpAuth::builder("https://docs.example.com/mcp", "https://desk.example.com/callback")
        .client_name("The desk")
        .store(store, SealKey::new(key))
        .account("ada")
        .build()?;
    if !auth.is_authorized().await? {
        let url = auth.authorization_url().await?; // the person visits it
    }
    auth.finish(&returned).await?; // in the handler of the callback, with the whole URL
    let docs = McpClient::http("docs", "https://docs.example.com/mcp").oauth(&auth).build()?;
    Ok(())
}

mod server {
    use super::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Filing {
        title: String,
    }

    graph! {
        Desk<Filing> = Graph { nodes: [file], edges: [START >> file >> END] }
    }

    async fn file() {}

    async fn serve(context: (), token: &str, stop: CancellationToken) -> hier::Result<()> {
        McpServer::new().graph("desk", Desk::compile(), context).serve_stdio().await?;
        McpServer::new()
            .graph("desk", Desk::compile(), context)
            .bearer(token)
            .hosts(["mcp.example.com"])
            .serve("0.0.0.0:8080", stop)
            .await?;
        Ok(())
    }

    async fn mounted(context: (), tokens: hier::server::auth::Tokens) -> hier::Result<()> {
        let server = hier::server::Server::new().graph("desk", Desk::compile(), context);
        let tools = McpServer::new().graph("desk", Desk::compile(), context).router(server.stopping())?;
        server.routes(tools).auth(tokens).serve("127.0.0.1:8123").await?;
        Ok(())
    }
}
