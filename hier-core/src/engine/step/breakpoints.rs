//! Nodes before and after which a run stops.

use fixedbitset::FixedBitSet;

use crate::config::Config;
use crate::engine::program::Plan;
use crate::error::RunError;

/// Nodes before and after which a run stops.
pub(crate) struct Breakpoints {
    before: FixedBitSet,
    after: FixedBitSet,
    /// Whether something has run since the run began: a breakpoint does not stop a run twice at one place.
    armed: bool,
    /// The nodes of the step that is running.
    running: Vec<usize>,
}

impl Breakpoints {
    /// Those of the graph; none if it has none.
    pub(crate) fn of(plan: &Plan) -> Option<Box<Self>> {
        Self::new(plan.before.clone(), plan.after.clone())
    }

    /// Those of the configuration, where it names some; else those of the graph.
    pub(crate) fn configured(plan: &Plan, config: &Config) -> Result<Option<Box<Self>>, RunError> {
        let set = |names: &Option<Vec<String>>, declared: &FixedBitSet| {
            let Some(names) = names else { return Ok(declared.clone()) };
            let mut set = FixedBitSet::with_capacity(plan.len());
            for name in names {
                let node = plan.find(name).ok_or_else(|| {
                    let tail = hier_spec::did_you_mean(name, plan.names());
                    RunError::Config(format!(
                        "a breakpoint is at `{name}`, which is no node of graph `{}`{tail}",
                        plan.graph()
                    ))
                })?;
                set.insert(node);
            }
            Ok(set)
        };
        Ok(Self::new(set(&config.interrupt_before, &plan.before)?, set(&config.interrupt_after, &plan.after)?))
    }

    fn new(before: FixedBitSet, after: FixedBitSet) -> Option<Box<Self>> {
        let any = !before.is_clear() || !after.is_clear();
        any.then(|| Box::new(Self { before, after, armed: true, running: Vec::new() }))
    }

    /// The run goes on where it stopped: it does not stop there again.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// A step of these nodes is to run. Whether the run stops before it.
    pub(crate) fn stops_before(&mut self, nodes: impl Iterator<Item = usize>) -> bool {
        self.running.clear();
        self.running.extend(nodes);
        self.armed && self.running.iter().any(|node| self.before.contains(*node))
    }

    /// The step has been applied. The nodes after which the run stops.
    pub(crate) fn passed(&mut self) -> impl Iterator<Item = usize> {
        self.armed = true;
        self.running.iter().copied().filter(|node| self.after.contains(*node))
    }
}
