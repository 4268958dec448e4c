//! Calls of the tools that a request brings.

use std::sync::Arc;

use async_trait::async_trait;
use hier_spec::trust::TrustLabels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::ToolArguments;
use super::client::{ClientResult, TYPE, content, question_key};
use super::toolset::{ToolAnswer, Toolset};
use super::{Tool, ToolOutput};
use crate::model::ToolSpec;
use crate::state::client_tools::ClientTools;
use hier_checkpoint::message::ToolCall;
use hier_core::graph::Task;
use hier_core::state::Values;
use hier_core::{Ask, DeclaredQuestion, NodeError, Run};

#[async_trait]
impl Toolset for ClientTools {
    fn name(&self) -> &'static str {
        "client"
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>, NodeError> {
        Ok(self.tools.clone())
    }

    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError> {
        let key = question_key(call);
        let spec = self.tools.iter().find(|spec| spec.name == call.name);
        if let Some(spec) = spec.filter(|_| !run.has_answer_to_key(&key).unwrap_or_default())
            && let Some(mistake) = ToolArguments::misfits(call, &spec.parameters)
        {
            return Ok(ToolAnswer::Refused(mistake));
        }
        Ok(match Ask::of_run(run).ask(RequestedCall { call: call.clone() }).key(key).await? {
            ClientResult::Done(result) => ToolAnswer::Content(content(&result)?),
            ClientResult::Failed(reason) => ToolAnswer::Refused(reason),
        })
    }
}

/// The question with which a run waits for the client to run one of its [`ClientTools`]. The JSON form is `{"type":
/// "tool", "toolCall": {"id": …, "name": …, "args": …}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename = "tool")]
pub struct RequestedCall {
    /// The call as the model made it.
    #[serde(rename = "toolCall")]
    pub call: ToolCall,
}

impl DeclaredQuestion for RequestedCall {
    type Answer = ClientResult<Value>;
    const NAME: &'static str = "client_tool";
    const IDENT: &'static str = "RequestedCall";
    const MODULE: &'static str = module_path!();
    const TYPE: &'static str = TYPE;
    const IS_BUILT_IN: bool = true;
}

/// The tool of a call that a client has answered, in a run whose request no longer brings the tool.
pub(crate) struct AnsweredTool {
    /// The labels of all toolsets that could have had the tool.
    pub(crate) labels: TrustLabels,
}

impl AnsweredTool {
    /// Returns true if the client has answered the call.
    pub(crate) fn has_result<C>(call: &ToolCall, run: &Run<C>) -> Result<bool, NodeError> {
        run.has_answer_to_key(&question_key(call))
    }
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Tool<S, C> for AnsweredTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: String::new(), description: String::new(), parameters: json!({}) }
    }

    fn labels(&self) -> TrustLabels {
        self.labels
    }

    fn mistake(&self, _: &ToolCall) -> Option<String> {
        None
    }

    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError> {
        let run = task.run().narrowed(|_| ());
        Ok(match ClientTools::default().call(call, &run).await? {
            ToolAnswer::Content(content) => ToolOutput::Content(content),
            ToolAnswer::Refused(why) => ToolOutput::Invalid(why),
        })
    }
}
