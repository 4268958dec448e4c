//! Checks that the grammar in the docs and the completion of editors contain each word that the parser knows.

use crate::symbol;

fn sibling(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lists of words, each with the struct in which editors find them.
fn lists() -> Vec<(&'static str, Vec<&'static str>)> {
    let kinds = symbol::KINDS.iter().map(|kind| (*kind, symbol::fields(kind)));
    let retry = symbol::RETRY_FIELDS.iter().map(|(field, _)| *field).collect();
    let others = [
        ("Node", symbol::NODE_OPTIONS.to_vec()),
        ("Policy", symbol::POLICY_OPTIONS.to_vec()),
        (symbol::MODEL_OPTIONS, symbol::MODEL_OPTION_FIELDS.to_vec()),
        (symbol::TOOL_SEARCH, symbol::TOOL_SEARCH_FIELDS.to_vec()),
        (symbol::RETRY_POLICY, retry),
        (symbol::CACHE_POLICY, symbol::CACHE_FIELDS.to_vec()),
    ];
    kinds.chain(others).collect()
}

fn has(text: &str, word: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|other| other == word)
}

#[test]
fn grammar_names_every_word() {
    let grammar = sibling("hier-core/src/prelude/graph.md");
    for (list, words) in lists() {
        // A word may be in several lists, each of which has a heading.
        let part = match list {
            "Node" => section(&grammar, "Options of a node"),
            "Policy" => section(&grammar, "Options of a policy"),
            symbol::MODEL_OPTIONS => section(&grammar, "Options of a model"),
            symbol::RETRY_POLICY | symbol::CACHE_POLICY => section(&grammar, "Options of a node"),
            _ => section(&grammar, "Kinds and their fields"),
        };
        assert!(symbol::KINDS.iter().all(|kind| *kind != list) || has(part, list), "no `{list}`");
        for word in words {
            assert!(has(part, word), "the grammar does not name `{word}` of {list}");
        }
    }
    for (layer, _) in symbol::READY_LAYERS {
        assert!(has(section(&grammar, "Layers"), layer), "the grammar does not name the layer `{layer}`");
    }
    for (value, _) in symbol::CHECKPOINTS_VALUES {
        assert!(has(section(&grammar, "Options of a node"), value), "the grammar does not name `{value}`");
    }
    for (unit, ..) in symbol::UNITS {
        assert!(grammar.contains(&format!("{unit} |")), "the grammar does not name the unit `{unit}`");
    }
}

fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("# {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    rest.split("\n# ").next().unwrap_or(rest)
}

#[test]
fn editor_words_equal_the_macros_words() {
    let file = syn::parse_file(&sibling("hier-spec/src/words.rs")).expect("a file");
    for (list, expected) in lists() {
        let mut found = words(&file, list);
        let mut expected: Vec<_> = expected.into_iter().filter(|word| *word != symbol::CRATE).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "the words of {list}");
    }
}

/// Returns the words of one call of `words!`, including the words that its form adds.
fn words(file: &syn::File, name: &str) -> Vec<String> {
    let calls = file.items.iter().filter_map(|item| match item {
        syn::Item::Macro(call) => Some(call.mac.tokens.to_string()),
        _ => None,
    });
    let calls: Vec<String> = calls.collect();
    let definition = calls.iter().find(|text| text.contains("$ name : ident")).expect("the macro");
    let call = calls.iter().find(|text| has(text.split('{').next().unwrap_or_default(), name)).expect("the call");
    let form = call.split('{').next().unwrap_or_default();
    let mut words = fields(call);
    // The words of a form precede or follow `$($own)*` in the definition of the macro.
    let added = |form: &str| {
        let (_, rest) = definition.split_once(&format!("{form} $ name : ident")).expect("the form");
        let (_, body) = rest.split_once("=>").expect("its body");
        fields(body.split("} ;").next().unwrap_or(body))
    };
    if has(form, "graph") || has(form, "agent") {
        words.extend(added("graph"));
    }
    if has(form, "agent") {
        words.extend(added("agent"));
    }
    words
}

/// Returns the words between a doc comment and a comma.
fn fields(text: &str) -> Vec<String> {
    text.split(']')
        .skip(1)
        .filter_map(|piece| {
            let word = piece.split(',').next()?.trim();
            let is_word = piece.contains(',')
                && !word.is_empty()
                && word.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
            is_word.then(|| word.to_owned())
        })
        .collect()
}
