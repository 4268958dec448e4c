//! A client of rust-analyzer with one file open, as an editor is.

#![allow(clippy::missing_panics_doc)] // it is of use in tests only

mod desk;
mod wire;

use std::path::PathBuf;

pub use desk::{Desk, Place};
use serde_json::{Value, json};
use tempfile::TempDir;
use wire::Wire;

/// rust-analyzer with one crate open, whose one file can be changed.
pub struct Editor {
    wire: Wire,
    uri: String,
    source: String,
    version: i64,
    /// The current diagnostics of the file.
    _folder: TempDir,
}

impl Editor {
    /// Starts the program, and waits until it knows the crate.
    pub fn open(program: &str, source: &str) -> Self {
        let folder = desk::folder(source);
        let (root, file) = (folder.path(), folder.path().join("src/main.rs"));
        let mut wire = Wire::start(program, root);
        let capabilities = json!({
            "textDocument": {"completion": {"completionItem": {"snippetSupport": false}}, "hover": {"contentFormat": ["plaintext"]}},
            "workspace": {"workspaceEdit": {"documentChanges": true}},
            "experimental": {"serverStatusNotification": true},
        });
        let options = json!({
            "checkOnSave": false,
            "cachePriming": {"enable": false},
            "cargo": {"targetDir": target()},
            "completion": {"autoimport": {"enable": false}, "postfix": {"enable": false}},
        });
        wire.request(
            "initialize",
            &json!({
                "processId": std::process::id(),
                "rootUri": format!("file://{}", root.display()),
                "capabilities": capabilities,
                "initializationOptions": options,
            }),
        );
        wire.notify("initialized", &json!({}));
        let uri = format!("file://{}", file.display());
        let document = json!({"uri": uri, "languageId": "rust", "version": 1, "text": source});
        wire.notify("textDocument/didOpen", &json!({"textDocument": document}));
        wire.until_ready();
        Self { wire, uri, source: source.to_owned(), version: 1, _folder: folder }
    }

    /// The file as it was opened, with a piece of it replaced; `|` in what replaces it is the cursor.
    pub fn typed(&mut self, piece: &str, with: &str) -> Desk<'_> {
        let start = desk::only(&self.source, piece);
        let (before, after) = (&self.source[..start], &self.source[start + piece.len()..]);
        let cursor = start + with.find('|').expect("a cursor");
        let text = format!("{before}{}{after}", with.replacen('|', "", 1));
        self.show(text, cursor)
    }

    /// The file as it was opened, with the cursor at a place: `|` in a piece of it.
    pub fn at(&mut self, piece: &str) -> Desk<'_> {
        let plain = piece.replacen('|', "", 1);
        self.typed(&plain, piece)
    }

    fn show(&mut self, text: String, cursor: usize) -> Desk<'_> {
        self.version += 1;
        let document = json!({"uri": self.uri, "version": self.version});
        self.wire
            .notify("textDocument/didChange", &json!({"textDocument": document, "contentChanges": [{"text": text}]}));
        Desk { editor: self, text, cursor }
    }

    fn request(&mut self, method: &str, parameters: &Value) -> Value {
        self.wire.request(method, parameters)
    }
}

/// The target folder of the macros, kept between runs.
fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| desk::workspace().join("target"), PathBuf::from);
    target.join("editors")
}
