// Setters accept everything that converts into the channel's type.

use std::collections::VecDeque;
use std::sync::Arc;

use hier_agents::prelude::*;
use hier_core::state::Overwrite;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Filing {
    #[reducer(append)]
    findings: Vec<String>,
    #[reducer(append)]
    years: Vec<u16>,
    #[reducer(append)]
    rows: Vec<Vec<u8>>,
    lines: Vec<String>,
    numbers: Vec<u64>,
    artifact: Option<String>,
    ratio: Option<f64>,
    name: String,
    shared: Arc<str>,
    year: u16,
}

fn main() {
    let _ = Filing::update().findings("one").findings(String::new()).findings(["two"]).findings([String::new()]);
    let _ = Filing::update().findings(vec![String::new()]).findings(Overwrite(vec!["x".into()]));
    let _ = Filing::update().years(7).years([7, 8]).years(Vec::new()).rows([vec![1]]).rows(vec![1]).rows(vec![vec![1]]);
    let _ = Filing::update().lines(["a", "b"]).lines([String::new()]).lines(vec!["a".into()]).lines(VecDeque::new());
    let _ = Filing::update().findings([]).years([]).lines([]).numbers([]);
    let _ = Filing::update().numbers([1]).numbers(vec![2]).numbers(&[3][..]);
    let _ = Filing::update().artifact("a").artifact(String::new()).artifact(None).artifact(Some("x".into()));
    let _ = Filing::update().ratio(0.5).ratio(None).name("a").name(String::new()).shared("x").year(7);
}
