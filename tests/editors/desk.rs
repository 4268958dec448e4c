//! The crate that is open, and what an editor asks of a place in it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Editor;

/// The open file with a cursor.
pub struct Desk<'a> {
    pub(crate) editor: &'a mut Editor,
    pub(crate) text: String,
    pub(crate) cursor: usize,
}

/// A place that rust-analyzer leads to: the file's name, and the line there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `main.rs`
    pub file: String,
    /// The text of the line, trimmed.
    pub line: String,
}

impl Desk<'_> {
    /// Returns the labels of the completions, in the order of relevance.
    pub fn completions(self) -> Vec<String> {
        let answer = self.ask("textDocument/completion", &json!({}));
        let items = if answer.is_array() { &answer } else { &answer["items"] };
        let mut items: Vec<&Value> = items.as_array().into_iter().flatten().collect();
        items.sort_by_key(|item| item["sortText"].as_str().unwrap_or_default());
        items.iter().map(|item| item["label"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Returns the places of the definition.
    pub fn definitions(self) -> Vec<Place> {
        let text = self.text.clone();
        let answer = self.ask("textDocument/definition", &json!({}));
        let places = answer.as_array().into_iter().flatten().map(|place| {
            let file = place["uri"].as_str().expect("a file").trim_start_matches("file://").to_owned();
            let name = file.rsplit('/').next().unwrap_or_default().to_owned();
            let text = if name == "main.rs" { text.clone() } else { std::fs::read_to_string(&file).expect("a file") };
            let line =
                usize::try_from(place["range"]["start"]["line"].as_u64().expect("a line")).expect("a small file");
            Place { file: name, line: text.lines().nth(line).unwrap_or_default().trim().to_owned() }
        });
        places.collect()
    }

    /// Returns the text of the hover card, or an empty text.
    pub fn hover(self) -> String {
        let answer = self.ask("textDocument/hover", &json!({}));
        answer["contents"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// The file after the name at the cursor was changed.
    pub fn renamed(self, to: &str) -> String {
        let mut text = self.text.clone();
        let answer = self.ask("textDocument/rename", &json!({"newName": to}));
        let files = answer["documentChanges"].as_array().unwrap_or_else(|| panic!("no changes: {answer}"));
        assert_eq!(files.len(), 1, "one file is changed: {files:?}");
        let edits = files[0]["edits"].as_array().expect("edits");
        let mut edits: Vec<(usize, usize)> = edits
            .iter()
            .map(|edit| (offset(&text, &edit["range"]["start"]), offset(&text, &edit["range"]["end"])))
            .collect();
        edits.sort_unstable();
        for (start, end) in edits.into_iter().rev() {
            text.replace_range(start..end, to);
        }
        text
    }

    fn ask(self, method: &str, more: &Value) -> Value {
        let before = &self.text[..self.cursor];
        let line = before.matches('\n').count();
        // The file is ASCII, so that a character is one of UTF-16.
        let character = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let mut parameters = json!({
            "textDocument": {"uri": self.editor.uri},
            "position": {"line": line, "character": character},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            parameters[key] = value.clone();
        }
        self.editor.request(method, &parameters)
    }
}

/// Converts a position of the protocol to an offset in the text.
fn offset(text: &str, place: &Value) -> usize {
    let number = |key: &str| usize::try_from(place[key].as_u64().expect("a number")).expect("a small file");
    text.split_inclusive('\n').take(number("line")).map(str::len).sum::<usize>() + number("character")
}

/// Returns the offset of a text that occurs once.
pub(crate) fn only(text: &str, piece: &str) -> usize {
    let mut found = text.match_indices(piece);
    let (start, _) = found.next().unwrap_or_else(|| panic!("there is no `{piece}`"));
    assert!(found.next().is_none(), "there are several `{piece}`");
    start
}

/// The workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A crate with this program, which depends on this checkout.
pub(crate) fn folder(source: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| std::fs::write(folder.path().join(path), text).expect("a file");
    let core: PathBuf = workspace().join("hier-core").canonicalize().expect("hier-core");
    std::fs::create_dir(folder.path().join("src")).expect("a folder");
    write("src/main.rs", source);
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"desk\"\nedition = \"2024\"\n\n[dependencies]\nhier-core = {{ path = \"{}\" }}\n\
             serde = {{ version = \"1\", features = [\"derive\"] }}\n\n[workspace]\n",
            core.display()
        ),
    );
    std::fs::copy(workspace().join("Cargo.lock"), folder.path().join("Cargo.lock")).expect("the lock file");
    folder
}
