use hier_core::Config;
use serde_json::Value;
use uuid::Uuid;

/// Selects a checkpoint of a thread. Clients send an id, or an object with the address in its fields or in its field
/// `configurable`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CheckpointSelector {
    /// `None` for the latest checkpoint.
    pub(crate) checkpoint: Option<Uuid>,
    /// The namespace of a subgraph. `None` and an empty text stand for the root graph.
    pub(crate) namespace: Option<String>,
}

impl CheckpointSelector {
    /// Reads the value of a field. The error names the field.
    pub(crate) fn parse(field: &str, value: Option<&Value>) -> Result<Self, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Self::default()) };
        let id = |path: &str, id: &Value| {
            let parsed = id.as_str().and_then(|id| Uuid::try_parse(id).ok());
            parsed.ok_or_else(|| format!("`{path}`: {id} is not the id of a checkpoint, which is a UUID"))
        };
        let fields = match value {
            Value::String(_) => return Ok(Self { checkpoint: Some(id(field, value)?), namespace: None }),
            Value::Object(fields) => fields.get("configurable").and_then(Value::as_object).unwrap_or(fields),
            other => {
                let fix = "pass the id of a checkpoint, or an object with `checkpoint_id`";
                return Err(format!("`{field}`: {other} is not the address of a checkpoint: {fix}"));
            }
        };
        let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let checkpoint =
            given("checkpoint_id").map(|value| id(&format!("{field}.checkpoint_id"), value)).transpose()?;
        let namespace = match given("checkpoint_ns") {
            None => None,
            Some(Value::String(namespace)) => Some(namespace.clone()),
            Some(other) => return Err(format!("`{field}.checkpoint_ns`: {other} is not a string")),
        };
        Ok(Self { checkpoint, namespace })
    }

    /// Fills the fields that are `None` from another selector.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { checkpoint: self.checkpoint.or(other.checkpoint), namespace: self.namespace.or(other.namespace) }
    }

    pub(crate) fn config(&self, thread: &str) -> Config {
        let config = Config::new().thread(thread).namespace(self.namespace.clone().unwrap_or_default());
        match self.checkpoint {
            Some(id) => config.checkpoint(id),
            None => config,
        }
    }
}
