//! The server under test in the conformance suite of MCP: `conformance_server ADDRESS`. Its tools are graphs.

use std::time::Duration;

use hier_agents::prelude::*;
use hier_agents::{Content, Part};
use hier_core::{CancellationToken, Result};
use hier_mcp::{McpError, McpServer, ServedPrompt, ServedResource};
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
}

/// A picture of one red dot.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// An empty recording.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

fn says(content: impl Into<Content>) -> ChatUpdate {
    Chat::update().messages(Message::assistant(content))
}

async fn simple_text() -> ChatUpdate {
    says("This is a simple text response for testing.")
}

async fn image() -> ChatUpdate {
    says(Content::parts([Part::image_data("image/png", PNG)]))
}

async fn audio() -> ChatUpdate {
    says(Content::parts([Part::file_data("audio/wav", WAV)]))
}

async fn embedded() -> ChatUpdate {
    says(Content::parts([Part::file_data("text/plain", "VGhpcyBpcyBhbiBlbWJlZGRlZCByZXNvdXJjZS4=").named("note.txt")]))
}

async fn mixed() -> ChatUpdate {
    let parts = [
        Part::text("Multiple content types test:"),
        Part::image_data("image/png", PNG),
        Part::file_data("application/json", "e30="),
    ];
    says(Content::parts(parts))
}

async fn fails() -> Result<ChatUpdate> {
    Err("This tool intentionally returns an error for testing")?
}

async fn progress(run: &Run) -> ChatUpdate {
    for progress in [0, 50, 100] {
        run.emit(json!({"progress": progress, "total": 100}));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    says("done")
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Sure {
    ok: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Color {
    #[serde(default)]
    color: String,
}

async fn elicits(run: &Run) -> Result<ChatUpdate> {
    let asked = json!({"key": "user_name", "message": "What is your name?"});
    let answer: Option<Name> = run.interrupt(&asked).with_schema(schema::<Name>()).await?;
    Ok(says(format!("Hello, {}!", answer.map_or_else(|| "stranger".to_owned(), |answer| answer.name))))
}

async fn state(run: &Run) -> Result<ChatUpdate> {
    let answer: Option<Sure> = run.interrupt(&"Please confirm").with_schema(schema::<Sure>()).await?;
    Ok(says(format!("state-ok: {}", answer.is_some_and(|answer| answer.ok))))
}

async fn rounds(run: &Run) -> Result<ChatUpdate> {
    let name: Option<Name> = run.interrupt(&"Step 1: What is your name?").with_schema(schema::<Name>()).await?;
    let color: Option<Color> =
        run.interrupt(&"Step 2: What is your favorite color?").with_schema(schema::<Color>()).await?;
    let name = name.map(|answer| answer.name).unwrap_or_default();
    Ok(says(format!("{name} likes {}", color.map(|answer| answer.color).unwrap_or_default())))
}

fn schema<T: JsonSchema>() -> serde_json::Value {
    hier_agents::schema_of::<T>()
}

/// Declares graphs of one node each.
macro_rules! graphs {
    ($($graph:ident: $node:ident),* $(,)?) => {
        $(graph! { $graph<Chat> = Graph { nodes: [$node], edges: [START >> $node >> END] } })*
    };
}

graphs! {
    SimpleText: simple_text,
    Image: image,
    Audio: audio,
    Embedded: embedded,
    Mixed: mixed,
    Fails: fails,
    Progress: progress,
    Elicits: elicits,
    Confirms: state,
    Rounds: rounds,
}

#[derive(Deserialize)]
struct Templated {
    id: String,
}

/// Adds the prompts, and the resource with a parameter.
fn offers(server: McpServer) -> McpServer {
    let simple = ServedPrompt::new("test_simple_prompt", |_| async {
        Ok(vec![Message::user("This is a simple prompt for testing.")])
    });
    let arguments = ServedPrompt::new("test_prompt_with_arguments", |given| async move {
        let text = format!("Prompt with arguments: arg1='{}', arg2='{}'", given["arg1"], given["arg2"]);
        Ok(vec![Message::user(text)])
    });
    let picture = ServedPrompt::new("test_prompt_with_image", |_| async {
        let parts = [Part::image_data("image/png", PNG), Part::text("Please analyze the image above.")];
        Ok(vec![Message::user(Content::parts(parts))])
    });
    let template = ServedResource::template("test://template/{id}/data", "template", |uri: Templated| async move {
        let data = json!({"id": uri.id, "templateTest": true, "data": format!("Data for ID: {}", uri.id)});
        Ok(Content::from(data.to_string()))
    });
    server
        .resource(template.media_type("application/json"))
        .prompt(simple.description("A simple prompt."))
        .prompt(
            arguments
                .description("A prompt with arguments.")
                .required("arg1", "First test argument")
                .required("arg2", "Second test argument"),
        )
        .prompt(picture.description("A prompt with a picture."))
}

#[tokio::main]
async fn main() -> std::result::Result<(), McpError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8765".to_owned());
    let text = "This is the content of the static text resource.";
    let picture = Content::parts([Part::image_data("image/png", PNG)]);
    offers(McpServer::new())
        .resource(ServedResource::new("test://static-text", "text", text).media_type("text/plain"))
        .resource(ServedResource::new("test://static-binary", "picture", picture).media_type("image/png"))
        .graph("test_simple_text", SimpleText::compile(), ())
        .graph("test_image_content", Image::compile(), ())
        .graph("test_audio_content", Audio::compile(), ())
        .graph("test_embedded_resource", Embedded::compile(), ())
        .graph("test_multiple_content_types", Mixed::compile(), ())
        .graph("test_error_handling", Fails::compile(), ())
        .graph("test_tool_with_progress", Progress::compile(), ())
        .graph("test_input_required_result_elicitation", Elicits::compile(), ())
        .graph("test_input_required_result_request_state", Confirms::compile(), ())
        .graph("test_input_required_result_multi_round", Rounds::compile(), ())
        .graph("test_input_required_result_tampered_state", Confirms::compile(), ())
        .graph("test_missing_capability", Elicits::compile(), ())
        .graph("test_streaming_elicitation", Elicits::compile(), ())
        .graph("test_logging_tool", SimpleText::compile(), ())
        .serve(&address, CancellationToken::new())
        .await
}
