//! Reads the parts of a stored checkpoint that tools show, without the types of its program.

use serde_json::{Map, Value};

use super::{Checkpoint, NextTasks, Saved, chain_json};

impl Checkpoint {
    /// Returns the channels of the program's state with their indices, without those of the engine.
    fn state_channels(&self) -> impl Iterator<Item = (usize, &str)> {
        self.channels.iter().map(|name| &**name).enumerate().filter(|(_, name)| !name.starts_with("__"))
    }

    /// Returns the names of the channels that changed at this checkpoint, without the engine's own channels.
    pub fn changed_channels(&self) -> Vec<&str> {
        let brought = |place: usize| self.versions.get(place) == Some(&self.id);
        self.state_channels().filter(|(place, _)| brought(*place)).map(|(_, name)| name).collect()
    }
}

impl NextTasks {
    /// Returns the names of the nodes that run next, with one entry per task. The entry `__start__` stands for an input
    /// that has not been applied yet.
    pub fn nodes(&self) -> Vec<&str> {
        let start = self.start.then_some("__start__");
        let sends = self.sends.iter().map(|send| &*send.node);
        start.into_iter().chain(sends).chain(self.ready.iter().map(|node| &**node)).collect()
    }

    /// Returns the name of a task's node. The argument is the [path](super::TaskWrites::path) of the task:
    /// `~__pregel_pull, NODE`, or `~__pregel_push, NUMBER, …` for the Send with this number. Returns `None` for other
    /// paths, and for an unknown Send.
    pub fn node_of<'a>(&'a self, path: &'a str) -> Option<&'a str> {
        if let Some(node) = path.strip_prefix("~__pregel_pull, ") {
            return Some(node);
        }
        let number: usize = path.strip_prefix("~__pregel_push, ")?.split(", ").next()?.parse().ok()?;
        self.sends.get(number).map(|send| &*send.node)
    }
}

impl Saved {
    /// Returns two maps whose keys are the names of channels. The first map has the values as JSON. The second has the
    /// error messages for values that cannot be converted to JSON. Leaves out secret channels. Tools that show stored
    /// values call this method.
    pub fn json_values(&self) -> (Map<String, Value>, Map<String, Value>) {
        let (mut values, mut unreadable) = (Map::new(), Map::new());
        for (place, name) in self.checkpoint.state_channels().filter(|(_, name)| !self.checkpoint.schema.hides(name)) {
            let Some((_, chain)) = self.values.iter().find(|(channel, _)| *channel == place) else { continue };
            match chain_json(chain) {
                Ok(value) => values.insert(name.to_owned(), value),
                Err(error) => unreadable.insert(name.to_owned(), error.to_string().into()),
            };
        }
        (values, unreadable)
    }
}
