//! Graphs that a program prints for the command `hier graph`.

use std::io::Write;

use hier_spec::GraphSpec;
use serde_json::{Value, json};

use crate::Draw;

/// The argument that `hier graph` passes to a program.
pub const REQUEST: &str = "--hier-graphs";

/// Makes this program print its graphs for the command `hier graph`. Call this function at the beginning of `main`.
///
/// If the argument [`REQUEST`] is the only argument of the program, this function prints the graphs as JSON and exits
/// the program. Otherwise the program continues.
///
/// ```
/// # use hier_core::prelude::*;
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Case { done: bool }
/// # async fn assess() {}
/// graph! {
///     Review<Case> = Graph { nodes: [assess], edges: [START >> assess >> END] }
/// }
///
/// fn main() {
///     hier_draw::on_request(&[Review::SPEC]);
///     // … the program
/// }
/// ```
pub fn on_request(graphs: &[&GraphSpec]) {
    if let Some(answer) = answer(std::env::args_os().skip(1), graphs) {
        // Writing fails if the reader has already exited.
        let _ = writeln!(std::io::stdout().lock(), "{answer}");
        std::process::exit(0);
    }
}

/// Returns the response to these arguments, or `None` if they are not a request.
fn answer(mut arguments: impl Iterator<Item = std::ffi::OsString>, graphs: &[&GraphSpec]) -> Option<Value> {
    let asked = arguments.next().is_some_and(|first| first == REQUEST) && arguments.next().is_none();
    let drawn = |spec: &&GraphSpec| json!({ "name": spec.name, "mermaid": spec.mermaid(), "dot": spec.dot(), "svg": spec.svg() });
    asked.then(|| graphs.iter().map(drawn).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_argument_requests_a_drawing() {
        let spec = GraphSpec {
            name: "review".into(),
            doc: "".into(),
            nodes: Vec::new().into(),
            edges: Vec::new().into(),
            interrupt_before: Vec::new().into(),
            interrupt_after: Vec::new().into(),
        };
        let answered = |arguments: &[&str]| answer(arguments.iter().map(Into::into), &[&spec]);
        assert_eq!(answered(&[REQUEST]).map(|graphs| graphs[0]["name"].clone()), Some(json!("review")));
        for other in [&[][..], &["--db"], &[REQUEST, "x"], &["x", REQUEST]] {
            assert_eq!(answered(other), None, "{other:?}");
        }
    }
}
