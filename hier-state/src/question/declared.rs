//! Questions whose types are declared: `#[derive(Question)]`.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

use super::Question;
use crate::checkpoint::{CodecError, codec};

/// The field of a question's JSON that has the name of the question.
const TYPE: &str = "type";

/// A question with a declared name and answer type. Derive it with `#[derive(Question)]`. Nodes ask it with an `Ask`
/// argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a question",
    label = "not a question",
    note = "write `#[derive(Question, Serialize, Deserialize, JsonSchema)]` and `#[question(answer = Type)]` above the struct"
)]
pub trait DeclaredQuestion: QuestionData {
    /// The type of the answer.
    type Answer: QuestionData;
    /// The name under which the question is stored. The name must be unique among the questions of a graph.
    const NAME: &'static str;
    /// The name of the Rust type.
    #[doc(hidden)]
    const IDENT: &'static str;
    /// The module of the type, which distinguishes types with the same identifier.
    #[doc(hidden)]
    const MODULE: &'static str;
    /// The value of the field `type` in the JSON of the question. Defaults to the name. Several questions can have the
    /// same value: for example, the questions of all client tools.
    #[doc(hidden)]
    const TYPE: &'static str = Self::NAME;
    /// True if the framework asks the question. A graph without `asks` then need not declare the question.
    #[doc(hidden)]
    const IS_BUILT_IN: bool = false;

    /// Checks if an answer has the type [`Self::Answer`]. The error describes the difference.
    #[doc(hidden)]
    fn check_answer(answer: &Value) -> Result<(), String> {
        codec::from_json::<Self::Answer>(answer).map(drop).map_err(|error| error.to_string())
    }
}

/// The type of a question or of an answer. All types with these traits implement it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a question or an answer",
    label = "cannot be stored or has no schema",
    note = "derive `Serialize`, `Deserialize` and `JsonSchema` for it; it must also be `Send + Sync + 'static`"
)]
pub trait QuestionData: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static> QuestionData for T {}

/// Checks at compile time that `T` can be a question or an answer. Generated code calls this function, so that the
/// compiler reports a type without several traits only once.
#[doc(hidden)]
pub const fn question_data<T: QuestionData>() {}

/// Converts a question to its JSON, which is an object. The field `type` of the object identifies the question.
#[doc(hidden)]
pub fn to_value<Q: DeclaredQuestion>(question: &Q) -> Result<Value, CodecError> {
    let mut fields = match codec::to_json(question)? {
        Value::Object(fields) => fields,
        Value::Null => serde_json::Map::new(),
        other => {
            let reason = format!("the question `{}` is not an object of fields but {other}", Q::NAME);
            return Err(CodecError::custom(reason));
        }
    };
    match fields.insert(TYPE.to_owned(), Q::TYPE.into()) {
        Some(other) if other != Q::TYPE => Err(CodecError::custom(format!(
            "the question `{}` has a field `{TYPE}`, which is where its name is stored: rename the field",
            Q::NAME
        ))),
        _ => Ok(Value::Object(fields)),
    }
}

pub(super) fn from_value<Q: DeclaredQuestion>(value: &Value) -> Result<Q, serde_json::Error> {
    let mut value = value.clone();
    let Some(fields) = value.as_object_mut() else {
        return Err(serde_json::Error::custom("it is not an object"));
    };
    fields.remove(TYPE);
    if fields.is_empty() {
        // A unit struct is read from null, and a struct without fields from an object.
        return Q::deserialize(&Value::Null).or_else(|_| Q::deserialize(&value));
    }
    codec::from_json(&value).map_err(|error| serde_json::Error::custom(error.to_string()))
}

/// A declared question at run time: its name, its JSON Schemas, and a check of answers.
#[derive(Clone, Copy)]
pub struct QuestionType {
    name: &'static str,
    ident: &'static str,
    module: &'static str,
    is_built_in: bool,
    schema: fn() -> Value,
    answer_schema: fn() -> Value,
    check: fn(&Value) -> Result<(), String>,
}

impl std::fmt::Debug for QuestionType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuestionType").field("name", &self.name).field("type", &self.ident).finish_non_exhaustive()
    }
}

impl QuestionType {
    /// Creates the description of the declared question `Q`.
    pub const fn of<Q: DeclaredQuestion>() -> Self {
        Self {
            name: Q::NAME,
            ident: Q::IDENT,
            module: Q::MODULE,
            is_built_in: Q::IS_BUILT_IN,
            schema: question_schema::<Q>,
            answer_schema: answer_schema::<Q>,
            check: Q::check_answer,
        }
    }

    /// Returns the name under which the question is stored.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the identifier of the question's type.
    pub const fn ident(&self) -> &'static str {
        self.ident
    }

    pub(super) const fn is_built_in(&self) -> bool {
        self.is_built_in
    }

    /// Returns true if `self` and `other` describe the same declared question.
    #[doc(hidden)]
    pub const fn is_same(&self, other: &Self) -> bool {
        use crate::channel::equal;
        equal(self.name, other.name) && equal(self.ident, other.ident) && equal(self.module, other.module)
    }

    /// Returns the JSON Schema of the question.
    pub fn schema(&self) -> Value {
        (self.schema)()
    }

    /// Returns the JSON Schema of the answer.
    pub fn answer_schema(&self) -> Value {
        (self.answer_schema)()
    }

    /// Checks if an answer has the answer type of the question.
    ///
    /// # Errors
    ///
    /// Fails if the answer does not have the type. The error describes the difference.
    pub fn check_answer(&self, answer: &Value) -> Result<(), String> {
        (self.check)(answer)
    }
}

fn question_schema<Q: DeclaredQuestion>() -> Value {
    with_type(schemars::schema_for!(Q).to_value(), Q::TYPE)
}

/// Adds the field with the type of the question to its schema.
fn with_type(mut schema: Value, question: &str) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert("type".to_owned(), "object".into());
        let properties = object.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert(TYPE.to_owned(), serde_json::json!({ "type": "string", "const": question }));
        }
        let required = object.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(required) = required.as_array_mut() {
            required.retain(|field| field != TYPE);
            required.insert(0, TYPE.into());
        }
    }
    schema
}

#[doc(hidden)]
pub fn answer_schema<Q: DeclaredQuestion>() -> Value {
    schemars::schema_for!(Q::Answer).to_value()
}

impl Question {
    /// Returns true if this question has the name of the declared question `Q`.
    pub fn is<Q: DeclaredQuestion>(&self) -> bool {
        self.name.as_deref() == Some(Q::NAME)
    }
}
