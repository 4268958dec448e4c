use std::sync::Arc;

use hier_agents::prelude::*;
use hier_agents::{ApprovalRequest, ToolAnswer, ToolCall, ToolSpec, Toolset};
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

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

/// Pays an invoice.
#[tool]
async fn settle(amount: u32, pay: Ask<Pay>) -> hier_core::Result<String> {
    Ok(format!("paid: {}", pay.ask(Pay { amount }).await?))
}

graph! {
    Clerk<BaseState, Desk> = Agent {
        tools: [settle, |desk| &desk.crm { approve: always }],
        asks: [Pay],
    }
}

const _: Option<ApprovalRequest> = None;

fn main() {
    let _ = Clerk::compile();
}
