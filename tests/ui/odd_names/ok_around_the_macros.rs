// Items around and inside a macro call, with names that generated code could have used.

use hier_agents::prelude::*;
use hier_draw::Draw;

mod lower_case {
    #![allow(dead_code, non_upper_case_globals, non_camel_case_types)]

    use hier_agents::prelude::*;
    use hier_core::state::RemainingSteps;

    const state: u32 = 1;
    static keys: u32 = 2;
    struct value;
    const write: u32 = 3;
    static channel: u32 = 4;
    const bytes: u32 = 5;
    const steps: u32 = 6;
    const f: u32 = 7;

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(super) struct Base {
        #[reducer(append)]
        list: Vec<String>,
    }

    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    pub(super) struct Filing {
        #[state(flatten)]
        base: Base,
        total: u32,
        left: RemainingSteps,
    }

    #[derive(View)]
    #[view(of = Filing)]
    pub(super) struct Seen<'a> {
        pub(super) total: &'a u32,
    }

    #[derive(View, Clone)]
    #[view(of = Filing)]
    pub(super) struct Asked {
        total: u32,
    }
}

mod primitives {
    #![allow(dead_code, non_upper_case_globals, non_camel_case_types)]

    use hier_agents::prelude::*;

    struct usize;
    struct str;
    struct u8;
    struct bool;

    // Serde's derives use primitive types by name, so these fields have another type.
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(from = "super::Stored", into = "super::Stored")]
    pub(super) struct Filing {
        #[reducer(append)]
        pub(super) list: Vec<String>,
        pub(super) total: u32,
    }

    graph! {
        pub(super) Review<Filing> = Graph { nodes: [see], edges: [START >> see >> END] }
    }

    async fn see() {}
}

#[derive(Serialize, Deserialize)]
struct Stored(Vec<String>, u32);

impl From<Stored> for primitives::Filing {
    fn from(Stored(list, total): Stored) -> Self {
        Self { list, total }
    }
}

impl From<primitives::Filing> for Stored {
    fn from(filing: primitives::Filing) -> Self {
        Self(filing.list, filing.total)
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Named {
    // One is renamed to the name of the other's field, and the other to a text that is not an identifier.
    #[state(rename = "b")]
    a: u32,
    #[state(rename = "x-y")]
    b: u32,
    #[state(rename = "name_1")]
    c: u32,
    #[state(rename = "gen")]
    d: u32,
    r#type: u32,
}

#[derive(View, Clone)]
#[view(of = Named)]
struct Typed {
    r#type: u32,
}

// Functions with the names of generated items.
async fn __node_0() {}
async fn __node_1() {}
fn __route_0(_: &Named) -> bool {
    true
}
async fn tick<T>(_: &Named) {}

mod inner {
    pub(super) async fn tick<T>(_: &super::Named) {}
}

graph! {
    Review<Named> = Graph {
        // With and without `::` in front of the parameters.
        nodes: [one = __node_1, two = __node_0, three = tick::<u8>, four = inner::tick<u16>],
        edges: [START >> one >> two >> three >> four >> if __route_0 { END } else { one }],
        input: Typed,
    }
}

fn main() {
    let _ = (Review::compile(), primitives::Review::compile(), lower_case::Filing::update().total(1));
    assert!(!primitives::Review::compile().spec().mermaid().is_empty());
}
