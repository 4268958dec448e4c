use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{Message, Messages, ToolCall};

impl JsonSchema for Message {
    fn schema_name() -> Cow<'static, str> {
        "Message".into()
    }

    /// Leaves out the providers' fields (`reasoning`, `usage`), which programs and models do not write.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "One message of a conversation.",
            "type": "object",
            "required": ["role"],
            "properties": {
                "role": { "enum": ["system", "user", "assistant", "tool", "remove"] },
                "content": {
                    "description": "A text, or parts: texts, images, files.",
                    "anyOf": [
                        { "type": "string" },
                        { "type": "array", "items": { "type": "object", "required": ["type"], "properties": {
                            "type": { "enum": ["text", "image", "file"] },
                        } } },
                    ],
                },
                "id": { "description": "A message replaces an earlier message with the same id.", "type": "string" },
                "calls": {
                    "description": "The tool calls of an assistant.",
                    "type": "array",
                    "items": { "type": "object", "required": ["name", "args", "id"], "properties": {
                        "name": { "type": "string" },
                        "args": { "type": "object" },
                        "id": { "type": "string" },
                    } },
                },
                "tool_call_id": { "description": "The id of the call that this message answers.", "type": "string" },
                "name": { "description": "The name of the tool.", "type": "string" },
                "status": { "enum": ["success", "error"] },
            },
        })
    }
}

impl JsonSchema for ToolCall {
    fn schema_name() -> Cow<'static, str> {
        "ToolCall".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A tool that the model calls.",
            "type": "object",
            "required": ["name", "args", "id"],
            "properties": {
                "name": { "description": "The name of the tool.", "type": "string" },
                "args": { "description": "The arguments.", "type": "object" },
                "id": { "description": "The id of the call.", "type": "string" },
            },
        })
    }
}

impl JsonSchema for Messages {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Messages".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": generator.subschema_for::<Message>() })
    }
}
