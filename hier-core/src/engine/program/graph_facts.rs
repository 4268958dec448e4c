use hier_spec::flow::never_read;
use hier_spec::{ArmTarget, EdgeSpec, Goto, Source, Target};
use schemars::SchemaGenerator;
use serde_json::Value;

use super::Program;
use super::facts::{AskedFacts, ChannelFacts, Exits, GraphFacts, InnerFacts, JoinFacts, NodeFacts};
use crate::question::QuestionType;
use crate::state::Values;

fn asked(question: QuestionType) -> AskedFacts {
    AskedFacts { name: question.name().to_owned(), question: question.schema(), answer: question.answer_schema() }
}

impl<S: Values, C> Program<S, C> {
    /// Returns the facts on which stored threads depend, for this graph and its subgraphs. The generator collects the
    /// schemas of named types.
    #[doc(hidden)]
    pub fn facts(&self, generator: &mut SchemaGenerator) -> GraphFacts {
        let channels = self.channels.iter().enumerate().map(|(channel, spec)| {
            let schema = S::channel_schema(channel, generator);
            ChannelFacts { spec: spec.clone(), schema: schema.map(Value::from) }
        });
        let channels = channels.collect();
        let migrations = u32::try_from(S::MIGRATIONS.len()).unwrap_or(u32::MAX);
        let joins = self.plan.joins.iter().map(|join| JoinFacts {
            name: join.name.to_string(),
            from: join.from.iter().map(|node| self.plan.name(*node).to_owned()).collect(),
            to: self.plan.name(join.target).to_owned(),
        });
        GraphFacts {
            name: self.plan.graph().to_owned(),
            renamed: self.renamed.clone(),
            version: S::VERSION,
            migrates_from: S::VERSION.saturating_sub(migrations),
            channels,
            unread: never_read(&self.spec).into_iter().map(String::from).collect(),
            nodes: (0..self.spec.nodes.len()).map(|node| self.node_facts(node, generator)).collect(),
            entry: self.exits(Source::Start, &Goto::Only(Vec::new().into())),
            joins: joins.collect(),
            questions: self.question_types().into_iter().map(asked).collect(),
        }
    }

    /// Returns the facts of a node. `node` is its index in the spec.
    fn node_facts(&self, node: usize, generator: &mut SchemaGenerator) -> NodeFacts {
        let spec = &self.spec.nodes[node];
        let rank = self.plan.rank(node);
        let inner = self.child(rank).map(|child| InnerFacts {
            graph: child.erased().facts(generator),
            checkpoints: self.nodes[rank].checkpoints,
            takes_state: child.takes_state(),
            is_sent: self.spec.edges.iter().any(|edge| sends_to(edge, node)),
            policy: child.policy(),
        });
        let exits = self.exits(Source::Node(node), &spec.goto);
        NodeFacts { name: spec.name.to_string(), defer: spec.defer, exits, inner }
    }

    fn exits(&self, source: Source, goto: &Goto) -> Exits {
        let name = |node: usize| self.spec.nodes[node].name.to_string();
        let mut exits = Exits::default();
        for edge in self.spec.edges.iter() {
            match edge {
                EdgeSpec::Plain { from, to } if *from == source => exits.always.extend(at(*to).map(name)),
                EdgeSpec::Route { from, arms, .. } if *from == source => {
                    let targets = arms.iter().flat_map(|arm| arm.to.iter()).filter_map(|target| at(target.target()));
                    exits.chosen.get_or_insert_default().extend(targets.map(name));
                }
                _ => {}
            }
        }
        match goto {
            Goto::Any => exits.chosen = None,
            Goto::Only(targets) => {
                let targets = targets.iter().filter_map(|target| at(*target)).map(name);
                exits.chosen.get_or_insert_default().extend(targets);
            }
        }
        exits
    }
}

fn sends_to(edge: &EdgeSpec, node: usize) -> bool {
    let EdgeSpec::Route { arms, .. } = edge else { return false };
    arms.iter().any(|arm| arm.to.contains(&ArmTarget::Send(node)))
}

fn at(target: Target) -> Option<usize> {
    match target {
        Target::End => None,
        Target::Node(node) => Some(node),
    }
}
