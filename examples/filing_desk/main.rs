//! Prints the library's drawing of the README's hierarchy as Mermaid text.
//!
//! ```text
//! cargo run --example filing_desk
//! ```
//!
//! `cargo run --features server --example server` serves it.

pub mod desk;

use desk::FilingDesk;
use hier::prelude::*;

fn main() {
    // `-- --svg` draws the picture of the README.
    let svg = std::env::args().nth(1).is_some_and(|option| option == "--svg");
    print!("{}", if svg { FilingDesk::SPEC.svg() } else { FilingDesk::SPEC.mermaid() });
}
