//! Selects the events of a thread that a client receives.

use serde_json::Value;

use super::translate::V3Event;

/// The channels of the protocol. Further channels have the form `custom:NAME`.
const CHANNELS: [&str; 9] =
    ["values", "updates", "messages", "tools", "custom", "lifecycle", "input", "tasks", "checkpoints"];

/// Maximum size of a filter, in bytes, because a connection compares each event with all of its filters.
const LARGEST: usize = 16 << 10;

/// A subscription to channels, to namespaces, and to a number of levels below these namespaces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EventFilter {
    channels: Vec<String>,
    namespaces: Option<Vec<Vec<String>>>,
    depth: Option<u64>,
}

impl EventFilter {
    /// Parses a subscription. The error names the field.
    pub(crate) fn parse(request: &Value) -> Result<Self, String> {
        let channels = request.get("channels").and_then(Value::as_array).filter(|list| !list.is_empty());
        let channels = channels.ok_or("channels is required and must be a non-empty array")?;
        let is_known =
            |name: &str| CHANNELS.contains(&name) || name.strip_prefix("custom:").is_some_and(|name| !name.is_empty());
        let named = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let channels: Vec<String> = channels.iter().map(named).collect();
        let unknown: Vec<&str> = channels.iter().map(String::as_str).filter(|name| !is_known(name)).collect();
        if !unknown.is_empty() {
            let allowed = CHANNELS.iter().take(8).copied().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "channels contains unsupported entries: {}. Allowed: {allowed}, or any `custom:<name>`.",
                unknown.join(", ")
            ));
        }
        let namespaces = match request.get("namespaces").filter(|list| !list.is_null()) {
            None => None,
            Some(list) => {
                let parsed = serde_json::from_value(list.clone());
                Some(parsed.map_err(|_| "namespaces must be an array of arrays of strings")?)
            }
        };
        let depth = match request.get("depth").filter(|depth| !depth.is_null()) {
            None => None,
            Some(depth) => Some(depth.as_u64().ok_or("depth must be a non-negative integer")?),
        };
        let filter = Self { channels, namespaces, depth };
        if filter.bytes() > LARGEST {
            return Err(format!("channels and namespaces are larger than {LARGEST} bytes: name fewer of them"));
        }
        Ok(filter)
    }

    /// Returns the approximate size of the filter, in bytes.
    fn bytes(&self) -> usize {
        let levels = self.namespaces.iter().flatten().flatten();
        let texts: usize = self.channels.iter().chain(levels).map(|text| text.len() + 32).sum();
        texts + self.namespaces.as_ref().map_or(0, Vec::len) * 32
    }

    pub(crate) fn wants(&self, event: &V3Event) -> bool {
        event.is_gap() || (self.wants_channel(event) && self.wants_namespace(&event.namespace))
    }

    fn wants_channel(&self, event: &V3Event) -> bool {
        let channel = if event.method == "input.requested" { "input" } else { event.method };
        let name = || event.data.get("name").and_then(Value::as_str);
        self.channels.iter().any(|wanted| {
            wanted == channel
                || (channel == "custom" && wanted.strip_prefix("custom:").is_some_and(|wanted| name() == Some(wanted)))
        })
    }

    fn wants_namespace(&self, namespace: &[String]) -> bool {
        let Some(prefixes) = self.namespaces.as_ref().filter(|prefixes| !prefixes.is_empty()) else { return true };
        prefixes.iter().any(|prefix| {
            let is_below = prefix.len() <= namespace.len()
                && prefix.iter().zip(namespace).all(|(wanted, level)| {
                    wanted == level || (!wanted.contains(':') && level.split(':').next() == Some(wanted))
                });
            let below = namespace.len().saturating_sub(prefix.len()) as u64;
            is_below && self.depth.is_none_or(|depth| below <= depth)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(method: &'static str, namespace: &[&str], data: Value) -> V3Event {
        let namespace = namespace.iter().map(|level| (*level).to_owned()).collect();
        V3Event { seq: 1, event_id: "1".to_owned(), method, namespace, at: 0, node: None, data }
    }

    #[test]
    fn namespaces_match_by_prefix_and_depth() {
        let request = json!({ "channels": ["values"], "namespaces": [["child"]], "depth": 1 });
        let filter = EventFilter::parse(&request).expect("a filter");
        assert!(filter.wants(&event("values", &["child:1"], json!({}))));
        assert!(filter.wants(&event("values", &["child:1", "deep:2"], json!({}))));
        assert!(!filter.wants(&event("values", &["child:1", "deep:2", "deeper:3"], json!({}))));
        assert!(!filter.wants(&event("values", &[], json!({}))));
        assert!(!filter.wants(&event("values", &["other:1"], json!({}))));
    }

    #[test]
    fn custom_channels_match_by_name() {
        let filter = EventFilter::parse(&json!({ "channels": ["custom:progress", "input"] })).expect("a filter");
        assert!(filter.wants(&event("custom", &[], json!({ "name": "progress" }))));
        assert!(!filter.wants(&event("custom", &[], json!({ "name": "else" }))));
        assert!(filter.wants(&event("input.requested", &[], json!({}))));
    }

    #[test]
    fn errors_name_the_field() {
        assert_eq!(
            EventFilter::parse(&json!({})),
            Err("channels is required and must be a non-empty array".to_owned())
        );
        let error = EventFilter::parse(&json!({ "channels": ["zzz"] })).unwrap_err();
        assert!(error.starts_with("channels contains unsupported entries: zzz. Allowed: values, updates"), "{error}");
        for large in [
            json!({ "channels": [format!("custom:{}", "x".repeat(LARGEST))] }),
            json!({ "channels": vec!["values"; LARGEST / 32] }),
            json!({ "channels": ["values"], "namespaces": vec![Vec::<String>::new(); LARGEST / 32] }),
        ] {
            let error = EventFilter::parse(&large).unwrap_err();
            assert!(error.starts_with("channels and namespaces are larger than 16384 bytes"), "{error}");
        }
    }
}
