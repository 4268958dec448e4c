use hier_agents::prelude::*;

struct Shop {
    base: BaseContext,
    limit: f64,
}

impl AsRef<BaseContext> for Shop {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

/// Gives money back.
#[tool(needs_approval, approve = |args, shop| args.eur > shop.limit)]
async fn refund(order: u32, eur: f64, run: &Run<Shop>) -> String {
    let _ = run;
    format!("{order}: {eur}")
}

graph! {
    Support<BaseState, Shop> = Agent {
        tools: [refund],
    }
}

fn main() {
    let _ = Support::compile();
}
