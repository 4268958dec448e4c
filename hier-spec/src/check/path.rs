use crate::GraphSpec;
use crate::positions::Positions;

/// Maximum number of supersteps of a path in a message. The middle of a longer path is left out.
const LONGEST: usize = 24;

/// Returns the nodes that run at each position of a path from START: `START >> a >> [b, c]`.
pub(super) fn path(spec: &GraphSpec, positions: &Positions, path: &[usize]) -> String {
    format!("START >> {}", steps(spec, positions, path))
}

/// Returns the nodes that run at each position.
pub(super) fn steps(spec: &GraphSpec, positions: &Positions, path: &[usize]) -> String {
    let step = |at: &usize| {
        let nodes = positions.running(*at);
        let names: Vec<&str> = nodes.iter().map(|node| &*spec.nodes[*node].name).collect();
        match names.as_slice() {
            [] => None,
            [one] => Some((*one).to_owned()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    };
    let mut steps: Vec<String> = path.iter().filter_map(step).collect();
    if steps.len() > LONGEST {
        drop(steps.splice(LONGEST / 2..steps.len() - LONGEST / 2, ["…".to_owned()]));
    }
    steps.join(" >> ")
}
