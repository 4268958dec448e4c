//! A research desk: researchers search the web in the background while the editor reads an archive with 34 tools.
//!
//! ```text
//! cargo run --example research_desk                                    without a key: a scripted model
//! cargo run --example research_desk -- --db desk.db                    durable: press Ctrl-C, and run it again
//! cargo run --features models --example research_desk -- "Who paid for lighthouses?" --model anthropic:claude-sonnet-5
//! ```
//!
//! The provider of the model searches the web, and the model cites the pages. Each collection of the archive is a tool.
//! The editor's model receives only the names of the tools (`search: true`), and searches for those that it needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use hier::agent::{Body, ChatChunk, ChatModel, ChatRequest, ToolAnswer, ToolSpec, Toolset};
use hier::checkpoint::{Checkpointer, MemorySaver};
use hier::message::{Citation, ToolCall};
use hier::prelude::*;
use hier::testing::ScriptedModel;
use hier::{Event, Result, async_trait};
use serde_json::json;

graph! {
    /// Answers a question.
    Editor<BaseState, Desk> = Agent {
        system: "Start a researcher for each part of the question. Meanwhile, read the archive. Wait for the reports. \
                 Then answer in a few sentences, with the sources.",
        tools: [|desk| &desk.archive { labels: [] }],
        search: true,
        subagents: [Researcher { background: true }],
    }
}

graph! {
    /// Researches one part of the question on the web.
    Researcher<BaseState, Desk> = Agent {
        system: "Search the web. Answer in two sentences.",
        max_iterations: 6,
    }
}

/// The context of the agents.
struct Desk {
    base: BaseContext,
    archive: Archive,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// An archive. Each of its collections is a tool, known only at run time.
#[derive(Deserialize)]
struct Archive(BTreeMap<String, Collection>);

#[derive(Deserialize)]
struct Collection {
    holds: String,
    note: String,
}

#[async_trait]
impl Toolset for Archive {
    fn name(&self) -> &'static str {
        "archive"
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>> {
        let tools = self.0.iter().map(|(name, collection)| ToolSpec {
            name: name.clone(),
            description: collection.holds.clone(),
            parameters: json!({ "type": "object", "properties": {} }),
        });
        Ok(tools.collect())
    }

    async fn call(&self, call: &ToolCall, _: &Run) -> Result<ToolAnswer> {
        // An archivist fetches the box.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let note = self.0.get(&call.name).map(|collection| collection.note.clone());
        Ok(ToolAnswer::Content(note.unwrap_or_default().into()))
    }
}

/// Researches a question.
#[derive(Parser)]
struct Arguments {
    #[arg(default_value = "How did lighthouses change?")]
    question: String,
    /// The model: `anthropic:NAME`, `responses:NAME` or `gemini:NAME`, whose providers search the web.
    /// Defaults to a scripted model.
    #[arg(long)]
    model: Option<String>,
    /// The database of the desk: a file, `sqlite:PATH` or `postgres:URL`. Defaults to memory.
    #[arg(long)]
    db: Option<String>,
}

/// Returns a model that can search the web.
#[cfg(feature = "models")]
fn searcher(name: &str) -> Result<Arc<dyn ChatModel>> {
    use hier::models::{Model, WebSearch};
    Ok(Arc::new(Model::parse(name)?.web_search(WebSearch::new())))
}

#[cfg(not(feature = "models"))]
use hier_examples::model as searcher;

/// The thread of the questions.
const THREAD: &str = "questions";

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { question, model, db } = Arguments::parse();
    let model: Arc<dyn ChatModel> = match model {
        Some(name) => searcher(&name)?,
        None => Arc::new(ScriptedModel::reacting(think)),
    };
    let saver: Arc<dyn Checkpointer> = match db {
        Some(name) => hier_examples::database(&name).await?,
        None => Arc::new(MemorySaver::new()),
    };
    let archive = serde_json::from_str(include_str!("data/archive.json"))?;
    let desk = Desk { base: BaseContext::new(model), archive };
    let editor = Editor::compile().checkpointer(saver);
    // If an earlier process was stopped, its run and its researchers continue.
    let is_new = editor.state(THREAD).await?.is_finished();
    let run = if is_new { editor.stream(Message::user(question)) } else { editor.stream(()) };
    let mut events = run.thread(THREAD).context(desk).modes([StreamMode::Messages]);
    while let Some(event) = events.next().await {
        let Event::Message(part) = event? else { continue };
        let ChatChunk::Done(answer) = part.chunk else { continue };
        answer.message.tool_calls().iter().for_each(|call| println!("{}: {} {}", part.agent, call.name, call.args));
    }
    let out = events.outcome().await?;
    for (handle, researcher) in out.state().background_subagents.iter() {
        println!("{handle}: {} {:?}", researcher.call.args["task"], researcher.status);
    }
    println!("\n{}", out.state().messages.last().map(Message::text_with_sources).unwrap_or_default());
    Ok(())
}

/// The web of the scripted model: topics, sentences, titles and addresses.
const WEB: [(&str, &str, &str, &str); 2] = [
    ("lens", "From 1822 on, a lens carried a lamp's light 20 miles.", "Fresnel", "https://example.org/fresnel"),
    ("radio", "From 1921 on, beacons did what lights had done.", "Radio beacons", "https://example.org/beacons"),
];

/// Answers for the scripted model: starts two researchers, reads the archive, waits for the reports and combines them.
fn think(request: &ChatRequest) -> Message {
    if !request.tools.iter().any(|tool| tool.name == "researcher") {
        let task = request.messages.last().map(Message::text).unwrap_or_default();
        let page = WEB.iter().find(|page| task.contains(page.0));
        return cited(page.map_or("Nothing is known.", |page| page.1));
    }
    let turn = request.messages.iter().rev().take_while(|message| !matches!(message.body, Body::User { .. }));
    // The last result comes first.
    let results = turn.filter_map(|message| match &message.body {
        Body::Tool { name: Some(name), .. } => Some((&**name, message.text())),
        _ => None,
    });
    match &results.collect::<Vec<_>>()[..] {
        [] => {
            let search = ToolCall::new("search_tools", json!({ "query": "lives of keepers" }));
            let tasks = WEB.iter().map(|page| ToolCall::new("researcher", json!({ "task": page.0 })));
            Message::calls("", tasks.chain([search]))
        }
        [("search_tools", _), ..] => {
            let found = request.tools.iter().find(|tool| tool.name.starts_with("archive_"));
            Message::call(found.map_or("archive", |tool| &tool.name), json!({}))
        }
        [("wait_for_subagents", reports), (_, note), ..] => {
            let sentences = WEB.iter().map(|page| page.1).filter(|sentence| reports.contains(sentence));
            cited(&sentences.chain([&**note]).collect::<Vec<_>>().join(" "))
        }
        _ => Message::call("wait_for_subagents", json!({})),
    }
}

/// Returns an answer that cites the pages whose sentences it has.
fn cited(text: &str) -> Message {
    let citations = WEB.iter().filter_map(|(_, sentence, title, url)| {
        let start = text.find(sentence)?;
        Some(Citation::new(start..start + sentence.len()).with_title(*title).with_url(*url))
    });
    Message::assistant(text).with_citations(citations)
}
