// `?` takes errors, boxed errors and texts, in nodes and in tools.

use std::error::Error;

use hier_agents::prelude::*;
use hier_core::Result;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: Option<String>,
    year: u16,
}

graph! {
    Review<Filing> = Graph {
        nodes: [texts, boxed, all],
        edges: [START >> texts >> boxed >> all >> END],
    }
}

async fn texts(state: &Filing) -> Result<FilingUpdate> {
    let title = state.title.as_ref().ok_or("no title")?;
    let year: u16 = "1990".parse()?;
    if state.year < year {
        Err(format!("{title} is of {year}"))?;
    }
    Ok(Filing::update().title("x"))
}

async fn boxed() -> Result<FilingUpdate, Box<dyn Error + Send + Sync>> {
    Ok(Filing::update().year("7".parse()?))
}

async fn all() -> Result<()> {
    let _ = boxed().await?;
    Ok(())
}

/// Looks.
#[tool]
async fn look(year: u16) -> Result<String, Box<dyn Error + Send + Sync>> {
    Ok(u16::try_from(i32::from(year) - 1)?.to_string())
}

/// Looks once more.
#[tool]
async fn see() -> Result<String> {
    Err("nothing to be seen")?
}

fn main() {
    let _ = Review::compile();
}
