//! Removes secret channels from the requests of runs and from their values.

use serde_json::Value;

use super::request::Request;

impl Request {
    /// Returns the input without secret channels.
    pub fn shown_input(&self) -> Value {
        let mut input = self.input.clone();
        self.hide(&mut input);
        input
    }

    /// Returns the command without secret channels, or `None` if the request has no command.
    pub fn shown_command(&self) -> Option<Value> {
        let mut command = self.command.clone();
        if let Some(command) = &mut command {
            self.hide_command(command);
        }
        command
    }

    /// Removes secret channels from an object of channels, or from a list of `[channel, value]` pairs.
    pub fn hide(&self, values: &mut Value) {
        hide_channels(&self.secrets, values);
    }

    /// Removes secret channels from a command: from its update and the payloads of its Sends.
    pub fn hide_command(&self, command: &mut Value) {
        hide_command(&self.secrets, command);
    }
}

/// Removes these channels from a command: from its update and the payloads of its Sends.
pub fn hide_command(secrets: &[String], command: &mut Value) {
    if let Some(update) = command.get_mut("update") {
        hide_channels(secrets, update);
    }
    let targets = match command.get_mut("goto") {
        Some(Value::Array(targets)) => targets.as_mut_slice(),
        Some(target) => std::slice::from_mut(target),
        None => &mut [],
    };
    for sent in targets.iter_mut().filter_map(|target| target.get_mut("input")) {
        hide_channels(secrets, sent);
    }
}

/// Removes these channels from an object of channels, a list of such objects, or a list of `[channel, value]` pairs.
pub fn hide_channels(secrets: &[String], values: &mut Value) {
    let hides = |name: &str| secrets.iter().any(|secret| secret == name);
    match values {
        Value::Object(channels) => channels.retain(|name, _| !hides(name)),
        Value::Array(parts) => parts.retain_mut(|part| match part {
            Value::Object(channels) => {
                let had_some = !channels.is_empty();
                channels.retain(|name, _| !hides(name));
                !had_some || !channels.is_empty()
            }
            pair => !pair.get(0).and_then(Value::as_str).is_some_and(hides),
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_hide_channels_in_every_form() {
        let secrets = ["token".to_owned()];
        let values = || json!({ "token": "t", "name": "n" });
        let shown = json!({ "name": "n" });
        let pairs = json!([["token", "t"], ["name", "n"]]);
        for (mut command, expected) in [
            (json!({ "update": values() }), json!({ "update": shown })),
            (json!({ "update": pairs }), json!({ "update": [["name", "n"]] })),
            (json!({ "goto": { "node": "a", "input": values() } }), json!({ "goto": { "node": "a", "input": shown } })),
            (
                json!({ "goto": ["b", { "node": "a", "input": values() }] }),
                json!({ "goto": ["b", { "node": "a", "input": shown }] }),
            ),
            (json!({ "goto": "a", "resume": 1 }), json!({ "goto": "a", "resume": 1 })),
        ] {
            hide_command(&secrets, &mut command);
            assert_eq!(command, expected);
        }
    }
}
