//! Differences between the models of Bedrock, by the maker in their ids.

/// Groups of models whose requests differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Claude,
    Nova,
    /// Models that refuse anything next to the results of calls.
    LoneResults,
    Other,
    /// Models behind an ARN that does not name them.
    Hidden,
}

/// The families by a part of the model's id. Ids of inference profiles and ARNs have a prefix.
const FAMILIES: [(&str, Family); 4] = [
    ("anthropic.claude-", Family::Claude),
    ("amazon.nova-", Family::Nova),
    ("meta.llama", Family::LoneResults),
    ("mistral.", Family::LoneResults),
];

/// Anthropic's models that obey schemas on Bedrock. Bedrock refuses schemas for later models that obey them elsewhere.
const WITH_SCHEMAS: [&str; 5] =
    ["claude-opus-4-5", "claude-opus-4-6", "claude-sonnet-4-5", "claude-sonnet-4-6", "claude-haiku-4-5"];

impl Family {
    pub(super) fn of(model: &str) -> Self {
        let known = FAMILIES.iter().find(|(part, _)| model.contains(part)).map(|(_, family)| *family);
        known.unwrap_or(if model.starts_with("arn:") { Self::Hidden } else { Self::Other })
    }

    /// Returns true if requests get no cache point, because models of this family refuse it or may refuse it.
    pub(super) fn lacks_cache(self) -> bool {
        matches!(self, Self::LoneResults | Self::Other)
    }

    pub(super) fn allows_beside_results(self, kind: &str) -> bool {
        match self {
            Self::LoneResults => false,
            Self::Claude | Self::Hidden => !["document", "video"].contains(&kind),
            Self::Nova | Self::Other => true,
        }
    }
}

/// Returns Anthropic's name of a model: `us.anthropic.claude-opus-4-6-v1` is `claude-opus-4-6-v1`.
pub(super) fn claude_name(model: &str) -> Option<&str> {
    let start = model.find("anthropic.claude-")? + "anthropic.".len();
    Some(&model[start..])
}

pub(super) fn obeys_schemas(name: &str) -> bool {
    WITH_SCHEMAS.iter().any(|prefix| name.starts_with(prefix))
}
