//! The limits of a schema's size.

use serde_json::Value;

/// The maximum numbers of parts of a schema.
pub(super) struct SchemaLimits {
    /// Fields that may be missing.
    pub(super) optional_fields: usize,
    /// Values with alternatives.
    pub(super) choices: usize,
}

impl SchemaLimits {
    pub(super) const NONE: Self = Self { optional_fields: usize::MAX, choices: usize::MAX };

    pub(super) fn permit(&self, fitted: &Value) -> bool {
        let mut counted = Self { optional_fields: 0, choices: 0 };
        counted.count(fitted);
        counted.optional_fields <= self.optional_fields && counted.choices <= self.choices
    }

    fn count(&mut self, schema: &Value) {
        let alternatives = schema["anyOf"].as_array();
        if alternatives.is_some() || schema["type"].is_array() {
            self.choices += 1;
        }
        if let Some(fields) = schema["properties"].as_object() {
            let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_optional = |name: &&String| !required.iter().any(|known| known == *name);
            self.optional_fields += fields.keys().filter(is_optional).count();
            fields.values().for_each(|field| self.count(field));
        }
        let definitions = schema["$defs"].as_object().into_iter().flat_map(|known| known.values());
        let inner = alternatives.into_iter().flatten().chain(definitions).chain(schema.get("items"));
        inner.for_each(|inner| self.count(inner));
    }
}
