//! Reads the source of a module: what it defines, what it imports, and which paths it names.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// A file of a crate, in memory or on the disk.
pub struct File {
    /// Its path, for messages.
    pub name: String,
    /// The module that it is: the crate first.
    pub module: Vec<String>,
    /// Its text.
    pub text: String,
}

/// A module, in a separate file or in braces.
#[derive(Debug, Default)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) path: Vec<String>,
    /// The names of its items.
    pub(crate) items: Vec<String>,
    pub(crate) imports: Vec<Import>,
    /// Paths in its code that begin with a keyword or a crate.
    pub(crate) paths: Vec<Path>,
}

/// A path in the code.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

/// One name that a `use` brings in.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    pub(crate) path: Path,
    /// The name here; none if everything is brought in (`*`).
    pub(crate) name: Option<String>,
}

/// The keywords in front of the name of an item.
const ITEMS: [&str; 8] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static"];

/// The modules of a file.
pub(crate) fn read(file: &File) -> Vec<Module> {
    let tokens: TokenStream =
        file.text.parse().unwrap_or_else(|error| panic!("{}: cannot be read as Rust: {error}", file.name));
    let mut modules = Vec::new();
    module(&file.name, file.module.clone(), tokens, &mut modules);
    modules
}

fn module(file: &str, path: Vec<String>, tokens: TokenStream, modules: &mut Vec<Module>) {
    let mut found = Module { file: file.to_owned(), path, ..Module::default() };
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let next = tokens.get(at + 1);
        match (&tokens[at], next, tokens.get(at + 2)) {
            (TokenTree::Ident(word), Some(TokenTree::Ident(name)), Some(TokenTree::Group(body)))
                if word == "mod" && body.delimiter() == Delimiter::Brace =>
            {
                let path = found.path.iter().cloned().chain([name.to_string()]).collect();
                module(file, path, body.stream(), modules);
                at += 3;
                continue;
            }
            (TokenTree::Ident(word), Some(TokenTree::Ident(name)), _) if ITEMS.iter().any(|item| word == item) => {
                found.items.push(name.to_string());
            }
            _ => {}
        }
        at += 1;
    }
    code(&tokens, &mut found);
    modules.push(found);
}

/// Finds imports and paths, also within braces; not in the modules within, which are read by themselves.
fn code(tokens: &[TokenTree], found: &mut Module) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(word) if word == "mod" && matches!(tokens.get(at + 2), Some(TokenTree::Group(_))) => {
                at += 3;
            }
            // `use<…>` in a bound says what is captured.
            TokenTree::Ident(word) if word == "use" && !is(tokens.get(at + 1), '<') => {
                let end =
                    tokens[at..].iter().position(|token| is(Some(token), ';')).map_or(tokens.len(), |end| at + end);
                tree(&tokens[at + 1..end], &[], &mut found.imports);
                at = end;
            }
            // `pub(in path)` imports nothing.
            TokenTree::Ident(word) if word == "in" && begins(tokens.get(at + 1)) => at += 1 + path(&tokens[at + 1..]).1,
            TokenTree::Ident(word) if begins(tokens.get(at)) => {
                let (segments, length) = path(&tokens[at..]);
                if segments.len() > 1 {
                    found.paths.push(Path { line: line(word), segments });
                }
                at += length;
            }
            // Code that a macro generates belongs to another crate.
            TokenTree::Ident(word) if quotes(word) && is(tokens.get(at + 1), '!') => at += 3,
            TokenTree::Group(group) => {
                code(&group.stream().into_iter().collect::<Vec<_>>(), found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// The macros whose body is code to be generated.
fn quotes(word: &Ident) -> bool {
    ["quote", "quote_spanned", "parse_quote", "parse_quote_spanned"].iter().any(|name| word == name)
}

/// Returns true if a path out of the module can begin here.
fn begins(token: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Ident(word)) = token else { return false };
    word == "crate" || word == "super" || word == "self" || word.to_string().starts_with("hier_")
}

/// The segments of the path that stands first, and the number of its tokens.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    let mut at = 0;
    while let Some(TokenTree::Ident(segment)) = tokens.get(at) {
        segments.push(segment.to_string());
        at += 1;
        if !(is(tokens.get(at), ':') && is(tokens.get(at + 1), ':')) {
            break;
        }
        at += 2;
    }
    (segments, at.max(1))
}

/// The names of a `use`: `a::{b, c::*, d as e}`.
fn tree(tokens: &[TokenTree], before: &[Path], imports: &mut Vec<Import>) {
    let mut segments: Vec<String> = before.iter().flat_map(|path| path.segments.clone()).collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                let name = tokens.get(at + 1).map(ToString::to_string);
                if let Some(last) = imports.last_mut() {
                    last.name = name;
                }
                return;
            }
            TokenTree::Ident(word) => {
                if word != "self" || segments.is_empty() {
                    segments.push(word.to_string());
                }
                if !is(tokens.get(at + 1), ':') {
                    let path = Path { line: line(word), segments: segments.clone() };
                    imports.push(Import { path, name: segments.last().cloned() });
                }
            }
            TokenTree::Punct(sign) if sign.as_char() == '*' => {
                let line = sign.span().start().line;
                imports.push(Import { path: Path { line, segments: segments.clone() }, name: None });
            }
            TokenTree::Group(group) => {
                let path = [Path { line: 0, segments: segments.clone() }];
                let within: Vec<TokenTree> = group.stream().into_iter().collect();
                within.split(|token| is(Some(token), ',')).for_each(|one| tree(one, &path, imports));
            }
            _ => {}
        }
    }
}

fn is(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

fn line(word: &Ident) -> usize {
    word.span().start().line
}
