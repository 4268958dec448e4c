use super::{Outbox, Payload};

/// The destinations that a route has chosen. The function of the route adds them.
#[derive(Default)]
pub struct Routing {
    pub(crate) go: smallvec::SmallVec<[usize; 4]>,
    pub(crate) sends: Outbox,
}

impl std::fmt::Debug for Routing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sends: Vec<_> = self.sends.nodes().collect();
        f.debug_struct("Routing").field("go", &self.go).field("sends", &sends).finish()
    }
}

impl Routing {
    /// Adds a node to run next. `node` is its index in the spec.
    pub fn go(&mut self, node: usize) {
        self.go.push(node);
    }

    /// Adds a task with this payload to run next. `node` is the index of its node in the spec.
    pub fn send(&mut self, node: usize, payload: impl Payload) {
        self.sends.push(node, payload);
    }
}
