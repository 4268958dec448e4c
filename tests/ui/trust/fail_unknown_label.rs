use std::sync::Arc;

use hier_agents::prelude::*;
use hier_agents::{ToolAnswer, ToolCall, ToolSpec, Toolset};
use hier_core::async_trait;

struct Desk {
    base: BaseContext,
    crm: Crm,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

struct Crm;

#[async_trait]
impl Toolset for Crm {
    fn name(&self) -> &str {
        "crm"
    }

    async fn tools(&self) -> hier_core::Result<Arc<[ToolSpec]>> {
        Ok(Arc::new([]))
    }

    async fn call(&self, _: &ToolCall, _: &Run) -> hier_core::Result<ToolAnswer> {
        Ok(ToolAnswer::Refused("closed".to_owned()))
    }
}

graph! {
    Clerk<BaseState, Desk> = Agent {
        tools: [|desk| &desk.crm { labels: [secret] }],
    }
}

fn main() {
    let _ = Clerk::compile();
}
