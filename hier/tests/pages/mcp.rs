//! The code of `docs/mcp.md`.

use hier::CancellationToken;
use hier::mcp::{McpAuth, McpClient, McpServer, SealKey, ServedPrompt, ServedResource};
use hier::message::Content;
use hier::prelude::*;

#[derive(Deserialize)]
struct OrderUri {
    number: u32,
}

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

    fn offers() -> McpServer {
        let terms = ServedResource::new("shop://terms", "terms", "Returns within 14 days.").media_type("text/markdown");
        let stock = ServedResource::reading("shop://stock", "stock", || async { Ok(Content::from("3 chairs")) });
        let orders = ServedResource::template("shop://orders/{number}", "order", |uri: OrderUri| async move {
            Ok(Content::from(format!("The order {}.", uri.number)))
        });
        let review = ServedPrompt::new("review", |arguments| async move {
            Ok(vec![Message::user(format!("Review the order {}.", arguments["order"]))])
        });
        let review = review.description("Reviews an order.").required("order", "The number of the order.");
        let server = McpServer::new().resource(terms).resource(stock).resource(orders).prompt(review);
        server
    }

    fn router(context: (), stop: CancellationToken) -> hier::Result<()> {
        let router = McpServer::new().graph("desk", Desk::compile(), context).router(stop)?; // part of another server, at /mcp
        Ok(())
    }

    async fn mounted(context: (), tokens: hier::server::auth::Tokens) -> hier::Result<()> {
        let server = hier::server::Server::new().graph("desk", Desk::compile(), context);
        let tools = McpServer::new().graph("desk", Desk::compile(), context).router(server.stopping())?;
        server.routes(tools).auth(tokens).serve("127.0.0.1:8123").await?;
        Ok(())
    }
}
