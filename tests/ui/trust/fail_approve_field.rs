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
#[tool]
async fn refund(order: u32, eur: f64) -> String {
    format!("{order}: {eur}")
}

graph! {
    Support<BaseState, Shop> = Agent {
        tools: [refund { approve: |args, shop| args.euro > shop.limit }],
    }
}

fn main() {
    let _ = Support::compile();
}
