//! The code of `docs/guide.md` and `docs/memory.md`.

use hier::CancellationToken;
use hier::prelude::*;
use hier::store::SqliteStore;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

graph! {
    Review<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] }
}

async fn assess() {}

async fn running(token: CancellationToken, input: FilingUpdate, context: ()) -> hier::Result<()> {
    let graph = Review::compile();
    let config = Config::new().thread("case-17").recursion_limit(50).max_concurrency(8).cancel(token);
    let outcome = graph.invoke(input).config(config).context(context).await?;
    Ok(())
}

mod memory {
    use super::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Visit {
        user: String,
        is_known: bool,
        alike: usize,
    }

    #[derive(Serialize, Deserialize)]
    struct Taste {
        likes: Vec<String>,
        stars: u8,
    }

    graph! {
        Greet<Visit> = Graph { nodes: [greet], edges: [START >> greet >> END] }
    }

    use hier::store::{Search, StoreExt};

    async fn greet(state: &Visit, run: &Run) -> hier::Result<VisitUpdate> {
        let store = run.store()?;
        let tastes: Option<Taste> = store.get_as(["users", &state.user], "tastes").await?;
        store.put(["users", &state.user], "tastes", &Taste { likes: vec!["figs".into()], stars: 5 }).await?;
        let others = store.search(Search::below(["users"]).filter("stars", json!({ "$gte": 4 })).limit(5)).await?;
        Ok(Visit::update().is_known(tastes.is_some()).alike(others.len()))
    }

    async fn stored() -> hier::Result<()> {
        let graph = Greet::compile().store(SqliteStore::open("desk.db").await?);
        Ok(())
    }
}

mod program {
    use super::*;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Countdown {
        seconds: u32,
        #[reducer(append)]
        log: Vec<String>,
    }

    graph! {
        Launch<Countdown> = Graph {
            nodes: [tick],
            edges: [START >> tick >> if state.seconds == 0 { END } else { tick }],
        }
    }

    async fn tick(state: &Countdown) -> CountdownUpdate {
        Countdown::update().seconds(state.seconds.saturating_sub(1)).log(format!("{} …", state.seconds))
    }
}
