//! Paths in messages.

use crate::GraphSpec;
use crate::positions::Positions;

/// Maximum number of steps of a path in a message. The middle of a longer path is left out.
const LONGEST: usize = 24;

/// Returns the nodes that run at each position: ``START >> a >> [b, c]``.
pub(super) fn path(spec: &GraphSpec, positions: &Positions, path: &[usize], from_start: bool) -> String {
    let step = |at: &usize| {
        let nodes = positions.running(*at);
        let names: Vec<&str> = nodes.iter().map(|node| &*spec.nodes[*node].name).collect();
        match names.as_slice() {
            [one] => (*one).to_owned(),
            several => format!("[{}]", several.join(", ")),
        }
    };
    let mut steps: Vec<String> = if from_start { vec!["START".to_owned()] } else { Vec::new() };
    if path.len() > LONGEST {
        let half = LONGEST / 2;
        steps.extend(path[..half].iter().map(step).chain(["…".to_owned()]));
        steps.extend(path[path.len() - half..].iter().map(step));
    } else {
        steps.extend(path.iter().map(step));
    }
    format!("`{}`", steps.join(" >> "))
}
