use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::config::Config;
use crate::engine::program::Plan;
use crate::error::RunError;

pub(crate) struct Breakpoints {
    before: FixedBitSet,
    after: FixedBitSet,
    /// False before the first superstep of a run that continues from a checkpoint of another run, which may have stopped
    /// there.
    pub(crate) armed: bool,
    /// The nodes of the last superstep, or in a resumed run those after which the run must stop.
    pub(crate) running: Vec<usize>,
}

impl Breakpoints {
    /// Returns the breakpoints of the configuration. Defaults to those of the graph.
    pub(crate) fn configured(plan: &Plan, config: &Config) -> Result<Option<Box<Self>>, RunError> {
        let set = |names: &Option<Vec<String>>, declared: &FixedBitSet| {
            let Some(names) = names else { return Ok(declared.clone()) };
            let mut set = FixedBitSet::with_capacity(plan.len());
            for name in names {
                let node = plan.find(name).ok_or_else(|| {
                    let tail = hier_spec::did_you_mean(name, plan.names());
                    RunError::Config(format!(
                        "a breakpoint is at `{name}`, which is not a node of graph `{}`{tail}",
                        plan.graph()
                    ))
                })?;
                set.insert(node);
            }
            Ok(set)
        };
        Ok(Self::new(set(&config.interrupt_before, &plan.before)?, set(&config.interrupt_after, &plan.after)?))
    }

    pub(crate) fn new(before: FixedBitSet, after: FixedBitSet) -> Option<Box<Self>> {
        (!before.is_clear() || !after.is_clear())
            .then(|| Box::new(Self { before, after, armed: true, running: Vec::new() }))
    }

    pub(crate) fn stops_before(&mut self, nodes: &mut dyn Iterator<Item = usize>) -> bool {
        self.running.clear();
        self.running.extend(nodes);
        std::mem::replace(&mut self.armed, true) && self.running.iter().any(|node| self.before.contains(*node))
    }

    /// Returns the nodes of the applied superstep after which the run stops.
    pub(crate) fn passed<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = &'a Arc<str>> {
        self.running.iter().filter(|node| self.after.contains(**node)).map(|node| plan.shared_name(*node))
    }
}
