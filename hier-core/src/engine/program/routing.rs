use super::{Outbox, Payload};

/// The destinations of a route. Generated code and the closures of a builder fill it.
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
    /// Runs the node with this index in the spec.
    pub fn go(&mut self, node: usize) {
        self.go.push(node);
    }

    /// Starts a task of the node with this index in the spec, with this payload.
    pub fn send(&mut self, node: usize, payload: impl Payload) {
        self.sends.push(node, payload);
    }
}
