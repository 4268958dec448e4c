//! The graphs of the server, and their drawings.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hier_draw::Draw;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::{App, Caller};
use crate::auth::Action;
use crate::default_assistants::default_id;
use crate::error::{ApiError, ApiResult};
use crate::graphs::ServedGraph;
use crate::query::Query;

/// Returns the version and the graphs. `program` is false if the studio shows a database without a program.
pub(super) async fn about(State(app): State<Arc<App>>, caller: Caller) -> Json<Value> {
    let graph = |(name, served): (&String, &ServedGraph)| json!({ "name": name, "title": served.graph.spec().name });
    let graphs: Vec<Value> = app.graphs.iter().map(graph).collect();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "program": !app.graphs.is_empty(),
        "graphs": graphs,
        "user": caller.user.identity,
    }))
}

/// Returns the graph with this name if the caller may read its default assistant.
async fn served<'a>(caller: &'a Caller, name: &str) -> ApiResult<&'a ServedGraph> {
    let served = caller.app.graph(name)?;
    caller.assistant(&default_id(name), Action::Read).await?;
    Ok(served)
}

/// Returns the names of the nodes, and the schemas of the graph.
pub(super) async fn graph(caller: Caller, Path(name): Path<String>) -> ApiResult<Json<Value>> {
    let served = served(&caller, &name).await?;
    let nodes: Vec<&str> = served.graph.spec().nodes.iter().map(|node| &*node.name).collect();
    Ok(Json(json!({ "name": name, "nodes": nodes, "schemas": served.schemas() })))
}

/// Selects the subgraphs that are drawn open.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SvgQuery {
    /// A JSON list of paths. A path is a list of node names. `*` opens all subgraphs.
    open: Option<String>,
}

/// Draws the graph. The query names the paths of the subgraphs that are drawn open.
pub(super) async fn svg(
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<SvgQuery>,
) -> ApiResult<Response> {
    let served = served(&caller, &name).await?;
    let named: Vec<Vec<String>> = match query.open.as_deref().unwrap_or("[]") {
        "*" => return Ok(picture(served.graph.spec().svg())),
        text => serde_json::from_str(text)
            .map_err(|_| ApiError::invalid("`open` is not a JSON list of paths: write `[[\"name\"]]` or `*`"))?,
    };
    Ok(picture(served.graph.spec().svg_opened(|path| named.iter().any(|named| named == path))))
}

fn picture(svg: String) -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, "default-src 'none'")], svg)
        .into_response()
}
