// States, views and tools that a `macro_rules!` generates, with types from its caller.

use hier_agents::prelude::*;
use hier_agents::ToolCallId;
use hier_core::message::ToolCall;

macro_rules! state {
    ($name:ident { $($field:ident: $ty:ident),* } list $list:path) => {
        #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            $($field: $ty,)*
            #[reducer(append)]
            findings: $list,
        }
    };
}

macro_rules! extended {
    ($name:ident: $base:ident, $kind:ident) => {
        #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            #[state(flatten)]
            base: $base,
            #[reducer($kind)]
            count: u64,
        }
    };
}

macro_rules! view {
    ($name:ident of $state:ident: $field:ident, $ty:tt) => {
        #[derive(View)]
        #[view(of = $state)]
        struct $name<'a> {
            $field: &'a $ty,
        }
    };
}

macro_rules! owned {
    ($name:ident of $state:ident: $field:ident, $ty:ident) => {
        #[derive(View, Clone)]
        #[view(of = $state)]
        struct $name {
            $field: $ty,
        }
    };
}

macro_rules! tools {
    ($name:ident($first:ident: $ty:ident, $second:ident: $other:ident) -> $result:ident over $state:ident) => {
        /// Adds up.
        #[tool]
        async fn $name(state: &$state, $first: $ty, #[default] $second: $other, third: Option<$ty>) -> $result {
            let _ = (state, $second, third);
            $first.to_string()
        }

        /// Adds up again.
        #[tool(timeout = 5s)]
        async fn again(run: &Run<()>, #[inject] state: &$state, call: &ToolCall, id: ToolCallId, $first: $ty) -> $result {
            let _ = (run, state, call, id);
            $first.to_string()
        }
    };
}

type List = Vec<String>;

state!(Filing { total: u32, title: String } list List);
extended!(Wide: Filing, sum);
view!(Seen of Filing: total, u32);
owned!(Asked of Filing: title, String);
tools!(look(year: u16, region: String) -> String over Filing);

graph! {
    Review<Filing> = Graph { nodes: [see], edges: [START >> see >> END], input: Asked }
}

async fn see(seen: Seen<'_>) -> FilingUpdate {
    Filing::update().findings([seen.total.to_string()])
}

fn main() {
    let _ = (Review::compile(), Wide::update().count(1_u64).total(2), look {}, again {});
}
