// States, views and tools that a `macro_rules!` generates, with types from its caller.

use hier_agents::prelude::*;
use hier_agents::{DeclaredTool, ToolCallId};
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

macro_rules! passed_on {
    ($name:ident { $field:ident: $ty:ty, $text:ty } $channel:literal $version:literal $migrate:path, $merge:path; $time:literal $tool:ident($optional:ty, $default:expr)) => {
        #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
        #[state(version = $version, migrate = $migrate)]
        pub struct $name {
            $field: $ty,
            #[state(rename = $channel)]
            #[reducer(with = $merge)]
            merged: $text,
        }

        /// Adds up.
        #[tool(timeout = $time)]
        async fn $tool(third: $optional, #[default = $default] text: $text) -> String {
            format!("{third:?} {text}")
        }

        graph! {
            Passed<$name> = Graph { nodes: [pass { timeout: $time }], edges: [START >> pass >> END] }
        }
    };
}

type Stored = serde_json::Map<String, serde_json::Value>;

fn from_v1(_: &mut Stored) -> Result<(), NodeError> {
    Ok(())
}

fn join(old: &mut String, new: String) {
    old.push_str(&new);
}

async fn pass() {}

passed_on!(Passing { total: u32, String } "text" 2 from_v1, join; 5s add(Option<u8>, "x"));

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
    let _ = (Passed::compile(), Passing::update().total(2));
    assert_eq!(Passing::channels().merged.name(), "text");
    let parameters = <add as DeclaredTool>::declared().parameters;
    assert!(parameters["required"].as_array().is_some_and(Vec::is_empty), "{parameters}");
}
