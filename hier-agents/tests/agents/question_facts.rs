//! The questions that graphs claim, and the answers that graphs built at run time accept.

use std::sync::Arc;

use hier_agents::prelude::*;
use hier_agents::{
    AgentBuilder, ApprovalRequest, ApprovalRule, ToolAnswer, ToolCall, ToolSpec, Toolset, ToolsetOptions,
};
use hier_core::async_trait;
use hier_core::graph::{DynGraph, DynGraphInfo, Graph, GraphBuilder, Task};
use serde_json::json;

struct Desk {
    base: BaseContext,
    crm: Crm,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

struct Crm;

#[async_trait]
impl Toolset for Crm {
    fn name(&self) -> &'static str {
        "crm"
    }

    async fn tools(&self) -> hier_core::Result<Arc<[ToolSpec]>> {
        Ok(Arc::new([]))
    }

    async fn call(&self, _: &ToolCall, _: &Run) -> hier_core::Result<ToolAnswer> {
        Ok(ToolAnswer::Refused("closed".to_owned()))
    }
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

/// Looks an order up.
#[tool]
async fn look(order: u32) -> String {
    order.to_string()
}

async fn ask_a_person(pay: Ask<Pay>) -> hier_core::Result<()> {
    pay.ask(Pay { amount: 1 }).await.map(|_| ())
}

graph! { OpenSet<BaseState, Desk> = Agent { tools: [look, |desk| &desk.crm] } }
graph! { ApprovedSet<BaseState, Desk> = Agent { tools: [look, |desk| &desk.crm { approve: always }] } }
graph! {
    ApprovedNode<BaseState, Desk> = Graph {
        nodes: [act = tools![look, |desk| &desk.crm { approve: always }]],
        edges: [START >> act >> END],
    }
}
graph! {
    Handled<BaseState, Desk> = Graph {
        nodes: [act = tools![look] { on_error: ask_a_person }],
        edges: [START >> act >> END],
        asks: [Pay],
    }
}

fn asked<G: Graph>() -> Vec<&'static str> {
    G::QUESTIONS.types().iter().map(hier_core::QuestionType::name).collect()
}

#[test]
fn approvals_of_toolsets_are_questions_of_their_graph() {
    assert_eq!(asked::<OpenSet>(), [""; 0]);
    assert_eq!(asked::<ApprovedSet>(), ["tool_approval"]);
    assert_eq!(asked::<ApprovedNode>(), ["tool_approval"]);
}

#[test]
fn error_handlers_of_tool_nodes_ask_questions_of_their_graph() {
    assert_eq!(asked::<Handled>(), ["pay"]);
}

async fn pay(task: Task<MessagesState>) -> hier_core::Result<()> {
    Ask::<Pay>::of_task(&task).ask(Pay { amount: 1 }).await.map(|_| ())
}

fn refuses(graph: &dyn DynGraph, question: &str) -> bool {
    graph.check_answer(question, &json!({ "no": "answer" })).is_err()
}

#[test]
fn built_graph_checks_the_answers_of_its_declared_questions() {
    let graph = GraphBuilder::<MessagesState>::new("built").node("pay", pay).edge(START, "pay").edge("pay", END);
    let undeclared = graph.compile().expect("a graph").erase(|_| Ok(()));
    assert!(!refuses(&undeclared, "pay"), "it makes no claims");
    let graph = GraphBuilder::<MessagesState>::new("built").node("pay", pay).edge(START, "pay").edge("pay", END);
    let declared = graph.asks::<Pay>().asks::<ApprovalRequest>().compile().expect("a graph");
    let outer = GraphBuilder::<MessagesState>::new("outer").subgraph("inner", &declared);
    let outer = outer.edge(START, "inner").edge("inner", END).compile().expect("a graph").erase(|_| Ok(()));
    let declared = declared.erase(|_| Ok(()));
    for graph in [&declared, &outer] {
        assert!(refuses(graph, "pay") && refuses(graph, "tool_approval") && !refuses(graph, "other"));
        assert_eq!(graph.check_answer("pay", &json!(true)), Ok(()));
        let known: Vec<&String> = graph.schemas().questions.keys().collect();
        assert_eq!(known, ["pay", "tool_approval"]);
    }
}

#[test]
fn built_agent_checks_the_approvals_of_its_tools() {
    let agent = || AgentBuilder::<BaseState, Desk>::new("built");
    let erased = |agent: AgentBuilder<BaseState, Desk>| {
        let desk = || Desk { base: BaseContext::new(hier_testkit::ScriptedModel::new([])), crm: Crm };
        agent.compile().expect("an agent").erase(move |_| Ok(desk()))
    };
    assert!(!refuses(&erased(agent().tool(look::TOOL)), "tool_approval"));
    assert!(refuses(&erased(agent().tool(ApprovalRule::always().of(look::TOOL))), "tool_approval"));
    let options = ToolsetOptions::new().approve(ApprovalRule::always());
    assert!(refuses(&erased(agent().toolset_with(|desk: &Desk| &desk.crm, options)), "tool_approval"));
    assert!(refuses(&erased(agent().asks::<Pay>()), "pay"));
}
