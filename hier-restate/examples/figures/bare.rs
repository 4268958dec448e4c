//! What somebody would write without hier: handlers that do the same calls.

use restate_sdk::context::DurableFuturesUnordered;
use restate_sdk::prelude::*;

use crate::WIDTH;

/// The same by hand: what a step does is recorded, and its state stored.
pub(crate) struct BareLoop;

#[object]
impl BareLoop {
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

pub(crate) struct BareWide;

#[object]
impl BareWide {
    #[handler]
    async fn run(&self, ctx: ObjectContext<'_>, goal: u64) -> Result<u64, TerminalError> {
        let mut at = ctx.get::<u64>("at").await?.unwrap_or(0);
        while at < goal {
            let items: u64 = ctx.run(|| async move { Ok(WIDTH) }).name("seed").await?;
            ctx.set("seeded", at);
            let mut running = DurableFuturesUnordered::new();
            for item in 0..items {
                running.push(ctx.service_client::<BareTaskClient<'_>>().run(item).call());
            }
            while let Some((_, done)) = running.next().await? {
                done?;
            }
            at = ctx.run(|| async move { Ok(at + 1) }).name("gather").await?;
            ctx.set("at", at);
        }
        Ok(at)
    }
}

pub(crate) struct BareTask;

#[service]
impl BareTask {
    #[handler]
    async fn run(&self, ctx: Context<'_>, item: u64) -> Result<u64, TerminalError> {
        ctx.run(|| async move { Ok(item) }).name("task").await
    }
}
