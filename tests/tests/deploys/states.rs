//! States that several files use.

use hier_core::prelude::*;

use crate::kit::state;

state!(Empty {});
state!(Number { x: u32 });
state!(Wide { x: u64 });
state!(Optional { x: Option<u32> });
state!(Numbers { x: Vec<u32> });
state!(Pair { x: (u32, u32) });
state!(Text { x: String });
state!(Texts { x: Vec<String> });
state!(Tags { #[reducer(append)] x: Vec<String> });
state!(Ephemeral {
    #[channel(ephemeral)]
    x: u32
});
state!(Untracked {
    #[channel(untracked)]
    #[serde(skip)]
    x: u32
});
