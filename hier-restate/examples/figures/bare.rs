//! Handlers as a user would write them without hier, with the same recorded calls. A run is begun by a service that waits for its
//! end, its steps are recorded and stored one by one, and an invocation that has lasted sends itself the next. [`crate::calls`] holds
//! the journals of both against each other.

use std::time::{SystemTime, UNIX_EPOCH};

use restate_sdk::context::{DurableFuturesUnordered, RequestTarget};
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::loops::WIDTH;

/// As in hier: how long an invocation begins further steps, in milliseconds, and how many at most.
const LASTS: u64 = 20;
const STEPS: u64 = 32;

/// A request of a client.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    /// The object that does it.
    pub(crate) object: String,
    pub(crate) key: String,
    pub(crate) goal: u64,
}

/// A request to the object.
#[derive(Serialize, Deserialize)]
struct Begin {
    goal: u64,
    ended: String,
}

/// The known state of a run.
#[derive(Clone, Serialize, Deserialize)]
struct Meta {
    at: u64,
    version: u64,
    goal: u64,
    ended: String,
}

/// Begins a run, and waits for its end.
pub(crate) struct BareRuns;

#[service(idempotency_retention = "1 day", journal_retention = "0s")]
impl BareRuns {
    #[handler]
    async fn invoke(&self, ctx: Context<'_>, Json(order): Json<Order>) -> Result<u64, TerminalError> {
        let (awakeable, ended) = ctx.awakeable::<u64>();
        let target = RequestTarget::object(&order.object, &order.key, "begin");
        ctx.request::<_, ()>(target, Json(Begin { goal: order.goal, ended: awakeable })).send();
        ended.await
    }
}

async fn meta(ctx: &ObjectContext<'_>) -> Result<Option<Meta>, TerminalError> {
    Ok(ctx.get::<Json<Meta>>("meta").await?.map(|Json(meta)| meta))
}

async fn begun(ctx: &ObjectContext<'_>, begin: Begin) -> Result<Meta, TerminalError> {
    let (at, version) = meta(ctx).await?.map_or((0, 0), |meta| (meta.at, meta.version));
    Ok(Meta { at, version, goal: begin.goal, ended: begin.ended })
}

/// When it is, for the journal.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Does a step, and stores what came of it.
async fn step(ctx: &ObjectContext<'_>, meta: &mut Meta, add: u64) -> Result<u64, TerminalError> {
    let at = meta.at;
    let Json((at, when)) = ctx.run(move || async move { Ok(Json((at + add, now()))) }).name("superstep").await?;
    meta.at = at;
    meta.version += 1;
    ctx.set(&format!("log/{}", meta.version), at);
    Ok(when)
}

/// Ends the run, or sends the object the next invocation.
fn left(ctx: &ObjectContext<'_>, object: &str, meta: Meta) {
    if meta.at >= meta.goal {
        ctx.resolve_awakeable(&meta.ended, meta.at);
        ctx.set("meta", Json(meta));
    } else {
        ctx.set("meta", Json(meta));
        ctx.request::<_, ()>(RequestTarget::object(object, ctx.key(), "turn"), 0_u64).send();
    }
}

/// Steps of one task.
pub(crate) struct BareLoop;

#[object(lazy_state, journal_retention = "0s")]
impl BareLoop {
    #[handler]
    async fn begin(&self, ctx: ObjectContext<'_>, Json(begin): Json<Begin>) -> Result<(), TerminalError> {
        let meta = begun(&ctx, begin).await?;
        steps(&ctx, meta).await
    }

    #[handler]
    async fn turn(&self, ctx: ObjectContext<'_>, _: u64) -> Result<(), TerminalError> {
        let Some(meta) = meta(&ctx).await? else { return Ok(()) };
        steps(&ctx, meta).await
    }
}

async fn steps(ctx: &ObjectContext<'_>, mut meta: Meta) -> Result<(), TerminalError> {
    let (mut first, mut steps) = (None, 0);
    loop {
        let when = step(ctx, &mut meta, 1).await?;
        steps += 1;
        let lasted = when.saturating_sub(*first.get_or_insert(when));
        if meta.at >= meta.goal || steps >= STEPS || lasted >= LASTS {
            left(ctx, "BareLoop", meta);
            return Ok(());
        }
    }
}

/// Rounds: a step of one task, one of several that are calls, one of one.
pub(crate) struct BareWide;

#[object(lazy_state, journal_retention = "0s")]
impl BareWide {
    #[handler]
    async fn begin(&self, ctx: ObjectContext<'_>, Json(begin): Json<Begin>) -> Result<(), TerminalError> {
        let meta = begun(&ctx, begin).await?;
        rounds(&ctx, meta).await
    }

    #[handler]
    async fn turn(&self, ctx: ObjectContext<'_>, _: u64) -> Result<(), TerminalError> {
        let Some(meta) = meta(&ctx).await? else { return Ok(()) };
        rounds(&ctx, meta).await
    }
}

async fn rounds(ctx: &ObjectContext<'_>, mut meta: Meta) -> Result<(), TerminalError> {
    let mut first = None;
    loop {
        let seeded = step(ctx, &mut meta, 0).await?;
        ctx.set("meta", Json(meta.clone()));
        let mut running = DurableFuturesUnordered::new();
        for item in 0..WIDTH {
            running.push(ctx.service_client::<BareTaskClient<'_>>().run(item).call());
        }
        while let Some((_, done)) = running.next().await? {
            done?;
        }
        meta.version += 1;
        ctx.set(&format!("log/{}", meta.version), WIDTH);
        let gathered = step(ctx, &mut meta, 1).await?;
        if meta.at >= meta.goal || gathered.saturating_sub(*first.get_or_insert(seeded)) >= LASTS {
            left(ctx, "BareWide", meta);
            return Ok(());
        }
    }
}

pub(crate) struct BareTask;

#[service(journal_retention = "0s")]
impl BareTask {
    #[handler]
    async fn run(&self, ctx: Context<'_>, item: u64) -> Result<u64, TerminalError> {
        ctx.run(|| async move { Ok(item) }).name("task").await
    }
}

/// Runs all steps in one invocation. The client waits for it.
pub(crate) struct BareStraight;

#[object(journal_retention = "0s")]
impl BareStraight {
    #[handler]
    async fn run(&self, ctx: ObjectContext<'_>, goal: u64) -> Result<u64, TerminalError> {
        let mut at = ctx.get::<u64>("at").await?.unwrap_or(0);
        while at < goal {
            at = ctx.run(|| async move { Ok(at + 1) }).name("tick").await?;
            ctx.set("at", at);
        }
        Ok(at)
    }
}
