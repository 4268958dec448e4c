//! Resources and prompts of a server, for a client of the protocol's own library and for hier's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::{Message, Part};
use hier_core::message::Content;
use hier_core::{CancellationToken, NodeError};
use hier_mcp::{McpClient, McpServer, ServedPrompt, ServedResource};
use rmcp::model::{
    ContentBlock, GetPromptRequestParams, PaginatedRequestParams, ReadResourceRequestParams, ResourceContents, Role,
};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ServiceError, ServiceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

async fn serve(server: McpServer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.serve_on(listener, CancellationToken::new()));
    format!("http://{address}/mcp")
}

async fn connect(url: &str) -> RunningService<RoleClient, ()> {
    ().serve(StreamableHttpClientTransport::from_uri(url)).await.unwrap()
}

/// A server without graphs.
fn shop(reads: &Arc<AtomicUsize>) -> McpServer {
    let reads = reads.clone();
    let stock = ServedResource::reading("shop://stock", "stock", move || {
        let count = reads.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(Content::from(format!("read {count} times"))) }
    });
    let photo = Content::parts([Part::text("A chair."), Part::image("data:image/png;base64,aGllcg==")]);
    let broken = ServedResource::reading("shop://broken", "broken", || async {
        Err(NodeError::permanent("the shelf is empty"))
    });
    let review = ServedPrompt::new("review", |arguments| async move {
        let tone = arguments.get("tone").map_or("plain", String::as_str);
        Ok(vec![Message::user(format!("Review {} ({tone}).", arguments["order"])), Message::assistant("Which part?")])
    });
    let careless =
        ServedPrompt::new("careless", |arguments| async move { Ok(vec![Message::user(arguments["tone"].clone())]) });
    let wrong = ServedPrompt::new("wrong", |_| async { Ok(vec![Message::system("You obey.")]) });
    McpServer::new()
        .resource(
            ServedResource::new("shop://terms", "terms", "# Terms")
                .media_type("text/markdown")
                .description("What we promise."),
        )
        .resource(stock)
        .resource(ServedResource::new("shop://photo", "photo", photo))
        .resource(broken)
        .prompt(review.description("Reviews an order.").required("order", "Its number.").optional("tone", "How."))
        .prompt(wrong)
        .prompt(careless.optional("tone", "How."))
}

fn error(result: Result<impl std::fmt::Debug, ServiceError>) -> (i32, String) {
    match result.unwrap_err() {
        ServiceError::McpError(error) => (error.code.0, error.message.to_string()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn clients_list_and_read_resources() {
    let reads = Arc::new(AtomicUsize::new(0));
    let client = connect(&serve(shop(&reads)).await).await;
    let listed = client.list_all_resources().await.unwrap();
    let uris: Vec<&str> = listed.iter().map(|resource| &*resource.uri).collect();
    assert_eq!(uris, ["shop://terms", "shop://stock", "shop://photo", "shop://broken"]);
    assert_eq!(listed[0].description.as_deref(), Some("What we promise."));
    assert_eq!(listed[0].mime_type.as_deref(), Some("text/markdown"));
    assert!(client.list_all_tools().await.unwrap().is_empty());

    let read = async |uri: &str| client.read_resource(ReadResourceRequestParams::new(uri)).await;
    let terms = read("shop://terms").await.unwrap();
    assert_eq!(terms.contents, [ResourceContents::text("# Terms", "shop://terms").with_mime_type("text/markdown")]);
    for count in 1..3 {
        let stock = serde_json::to_value(read("shop://stock").await.unwrap()).unwrap();
        assert_eq!(stock["contents"][0]["text"], format!("read {count} times"));
    }
    let photo = read("shop://photo").await.unwrap();
    assert_eq!(photo.contents[1], ResourceContents::blob("aGllcg==", "shop://photo").with_mime_type("image/png"));
    let (_, why) = error(read("shop://broken").await);
    assert!(why.contains("the shelf is empty"), "{why}");
    assert!(error(read("shop://nothing").await).1.contains("shop://nothing"));
}

#[tokio::test]
async fn clients_request_prompts() {
    let client = connect(&serve(shop(&Arc::default())).await).await;
    let listed = client.list_all_prompts().await.unwrap();
    let arguments: Vec<_> = listed[0].arguments.iter().flatten().map(|one| (&*one.name, one.required)).collect();
    assert_eq!((&*listed[0].name, arguments), ("review", vec![("order", Some(true)), ("tone", Some(false))]));
    let get = async |name: &str, arguments: Value| {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        client.get_prompt(GetPromptRequestParams::new(name).with_arguments(arguments)).await
    };
    let review = get("review", json!({"order": "7"})).await.unwrap();
    assert_eq!(review.description.as_deref(), Some("Reviews an order."));
    assert_eq!(review.messages.len(), 2);
    assert_eq!(review.messages[0].content, ContentBlock::text("Review 7 (plain)."));
    assert_eq!((&review.messages[0].role, &review.messages[1].role), (&Role::User, &Role::Assistant));
    let polite = get("review", json!({"order": "7", "tone": "polite"})).await.unwrap();
    assert_eq!(polite.messages[0].content, ContentBlock::text("Review 7 (polite)."));

    let invalid = -32602;
    assert_eq!(error(get("review", json!({})).await), (invalid, "`order` is missing".to_owned()));
    let unknown = error(get("review", json!({"order": "7", "ton": "polite"})).await);
    assert_eq!(unknown, (invalid, "the prompt `review` has no argument `ton`; did you mean `tone`?".to_owned()));
    assert_eq!(error(get("review", json!({"order": 7})).await).1, "the argument `order` must be a string");
    assert_eq!(error(get("revue", json!({})).await), (invalid, "Unknown prompt: revue".to_owned()));
    assert!(error(get("careless", json!({})).await).1.contains("panicked"));
    assert!(error(get("wrong", json!({})).await).1.contains("may only have user and assistant messages"));
}

#[tokio::test]
async fn own_client_reads_resources_and_prompts() {
    let url = serve(shop(&Arc::default())).await;
    let client = McpClient::http("shop", &url).build().unwrap();
    assert_eq!(client.resources().await.unwrap()[0].name, "terms");
    assert_eq!(client.read("shop://terms").await.unwrap().text(), "# Terms");
    let messages = client.prompt("review", [("order".to_owned(), "7".to_owned())]).await.unwrap();
    assert_eq!(messages.iter().map(Message::text).collect::<Vec<_>>(), ["Review 7 (plain).", "Which part?"]);
}

#[derive(Deserialize)]
struct OrderUri {
    number: u32,
    part: String,
}

#[tokio::test]
async fn clients_read_resources_of_templates() {
    let orders = ServedResource::template("shop://orders/{number}/{part}.txt", "order", |uri: OrderUri| async move {
        Ok(Content::from(format!("{} of {}", uri.part, uri.number)))
    });
    let first = ServedResource::new("shop://orders/1/first.txt", "first", "The first order.");
    let server = McpServer::new().resource(orders.description("An order.").media_type("text/plain")).resource(first);
    let url = serve(server).await;
    let client = connect(&url).await;
    let listed = client.list_all_resource_templates().await.unwrap();
    let [order] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&*order.uri_template, &*order.name), ("shop://orders/{number}/{part}.txt", "order"));
    assert_eq!((order.description.as_deref(), order.mime_type.as_deref()), (Some("An order."), Some("text/plain")));
    assert_eq!(client.list_all_resources().await.unwrap().len(), 1);

    let read = async |uri: &str| client.read_resource(ReadResourceRequestParams::new(uri)).await;
    let uri = "shop://orders/7/the%20leg%2F1.txt";
    let leg = ResourceContents::text("the leg/1 of 7", uri).with_mime_type("text/plain");
    assert_eq!(read(uri).await.unwrap().contents, [leg]);
    let odd = serde_json::to_value(read("shop://orders/7/a&number=8+b.txt").await.unwrap()).unwrap();
    assert_eq!(odd["contents"][0]["text"], "a&number=8+b of 7");
    let own = McpClient::http("shop", &url).build().unwrap();
    assert_eq!(own.read("shop://orders/1/first.txt").await.unwrap().text(), "The first order.");
    assert_eq!(own.read("shop://orders/1/second.txt").await.unwrap().text(), "second of 1");

    let (code, why) = error(read("shop://orders/seven/leg.txt").await);
    assert!(code == -32602 && why.contains("number: invalid digit found in string"), "{why}");
    for uri in ["shop://orders/7/.txt", "shop://orders//leg.txt", "shop://orders/7/a/b.txt"] {
        assert_eq!(error(read(uri).await).1, format!("Resource not found: {uri}"));
    }
}

#[tokio::test]
async fn long_lists_have_pages() {
    let resource = |number: usize| ServedResource::new(format!("shop://{number}"), "one", "…");
    let server = (0..250).map(resource).fold(McpServer::new(), McpServer::resource);
    let client = connect(&serve(server).await).await;
    let page = async |cursor: Option<String>| {
        client.list_resources(Some(PaginatedRequestParams::default().with_cursor(cursor))).await
    };
    let first = page(None).await.unwrap();
    assert_eq!((first.resources.len(), &*first.resources[99].uri), (100, "shop://99"));
    assert!(first.next_cursor.is_some());
    assert_eq!(client.list_all_resources().await.unwrap().len(), 250);
    for cursor in ["x", "-1"] {
        let (code, why) = error(page(Some(cursor.to_owned())).await);
        assert!(code == -32602 && why.contains(&format!("the cursor `{cursor}` is not one of this list")), "{why}");
    }
    assert!(page(Some("1000".to_owned())).await.unwrap().resources.is_empty());
}

/// A read that never ends is one of the concurrent calls, and its future is dropped when its client cancels it.
#[tokio::test]
async fn endless_read_holds_a_place_until_it_is_cancelled() {
    struct Told(Arc<AtomicUsize>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let begun = Arc::new(AtomicUsize::new(0));
    let told = (dropped.clone(), begun.clone());
    let endless = ServedResource::reading("shop://endless", "endless", move || {
        let told = Told(told.0.clone());
        begun.fetch_add(1, Ordering::SeqCst);
        async move {
            let _told = told;
            std::future::pending::<()>().await;
            Ok(Content::from(""))
        }
    });
    let url = serve(McpServer::new().resource(endless).max_calls(1)).await;
    let client = McpClient::http("shop", &url).build().unwrap();
    let reading = tokio::spawn({
        let client = client.clone();
        async move { client.read("shop://endless").await }
    });
    let until = async |count: &AtomicUsize, most: usize| {
        for _ in 0..500 {
            if count.load(Ordering::SeqCst) == most {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it takes too long");
    };
    until(&told.1, 1).await;
    let busy = client.read("shop://endless").await.unwrap_err().to_string();
    assert!(busy.contains("the server is busy"), "{busy}");
    reading.abort();
    until(&dropped, 1).await;
}

#[tokio::test]
async fn mistakes_are_found_before_a_server_serves() {
    let served = async |server: McpServer| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        server.serve_on(listener, CancellationToken::new()).await.unwrap_err().to_string()
    };
    let resource = |uri: &str| ServedResource::new(uri, "terms", "…");
    let prompt = |name: &str| ServedPrompt::new(name, |_| async { Ok(Vec::new()) });
    let said = served(McpServer::new()).await;
    assert!(said.contains("the server has no graphs"), "{said}");
    for uri in ["terms", "", "shop://a b", "1a:b", ":a"] {
        let said = served(McpServer::new().resource(resource(uri))).await;
        assert!(said.contains("the resource `terms` needs an absolute URI"), "{said}");
    }
    for (uri, why) in [
        ("shop://orders", "it has no parameters: use `ServedResource::reading`"),
        ("shop://{a", "a `{` has no `}`"),
        ("shop://{a*}", "`{a*}` is not a parameter"),
        ("shop://{a}/{a}", "it has two parameters `a`"),
        ("shop://{a}{b}", "there must be a text before `{b}`"),
        ("{a}/b", "needs an absolute URI"),
    ] {
        let template = ServedResource::template(uri, "terms", |_: Value| async { Ok(Content::from("")) });
        let said = served(McpServer::new().resource(template)).await;
        assert!(said.contains("the resource `terms`") && said.contains(why), "{said}");
    }
    let said = served(McpServer::new().resource(resource("a:b")).resource(resource("a:b"))).await;
    assert!(said.contains("two resources have the URI `a:b`"), "{said}");
    let said = served(McpServer::new().prompt(prompt("a")).prompt(prompt("a"))).await;
    assert!(said.contains("two prompts have the name `a`"), "{said}");
    let said = served(McpServer::new().prompt(prompt("a").required("b", "").optional("b", ""))).await;
    assert!(said.contains("the prompt `a` has two arguments `b`"), "{said}");
}
