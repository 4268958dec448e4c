//! The rules of the project's English, and the texts that they apply to: doc comments, pages and error texts.
//!
//! A rule is a pattern with advice. `language_test.rs` applies all of them to the workspace and has the list of exceptions.

use std::fmt;
use std::sync::LazyLock;

use proc_macro2::{Delimiter, Literal, TokenStream, TokenTree};
use regex::Regex;

/// A text that a person reads.
#[derive(Debug)]
pub struct Text {
    /// The file, relative to the workspace.
    pub file: String,
    /// The line on which the text begins.
    pub line: usize,
    /// The rules that apply.
    pub kind: Kind,
    /// The text without comment signs.
    pub prose: String,
}

/// The place of a text. It decides which rules apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The doc comment of an item.
    Doc,
    /// The doc comment of an item that no other crate can name.
    PrivateDoc {
        /// The name that the doc must not merely repeat.
        item: String,
    },
    /// A paragraph of a page.
    Page,
    /// A string of several words in the code: an error, a log line or a help text.
    Message,
    /// The text of `#[error("…")]`.
    Error,
}

/// A text that breaks a rule.
#[derive(Debug)]
pub struct Finding {
    /// The file, relative to the workspace.
    pub file: String,
    /// The line on which the text begins.
    pub line: usize,
    /// The way to fix it.
    pub advice: &'static str,
    /// The words that break the rule.
    pub words: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, advice, words } = self;
        write!(f, "{file}:{line}: {words:?}: {advice}")
    }
}

/// A sentence has at most this many words.
const LONGEST_SENTENCE: usize = 40;

/// Sentences do not begin with these words, since the reader then meets the subject last.
static OPENING: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(What|Whether|How|Who|Whoever|Where|Which|Whose|Whom|That which|Of|The same)\b"));

/// The phrases that no text has, each with advice.
static PHRASES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let phrases = [
        (r"\bmend(s|ed|ing)?\b", "write `fix`"),
        (r"\bunless (given|said|told)\b", "write `defaults to`"),
        (r"\b(that|which) (is|are) (none|whole)\b|\bis none\.|\bthat none has\b", "name the thing"),
        (r"\bwhoever\b|\bsomebody\b|\bnobody\b|\bto who\b", "name the actor"),
        (r"\b(tells?|told|telling)\b", "write `reports`, `notifies`, `sends` or `logs`"),
        (r"\b(take|takes|taken|taking) up\b", "write `resumes`"),
        (r"\bat work\b", "write `running` or `in progress`"),
        (r"\bbeside\b", "write `in addition to` or `next to`"),
        (r"\b(hand|hands|handed|handing) over\b|\bgives? free\b", "write `passes`, `returns` or `releases`"),
        (r"\bof (one's|your) own\b", "write `custom` or `your own`"),
        (r"\bthe reference('s)?\b", "write `LangGraph`"),
        (r"\bof which\b|\bwhy what\b", "write two sentences"),
        (r"[:;] (what|whoever|who|whether|whose)\b", "begin a sentence with its actor"),
        (r"; without\b|[:;] one of another\b", "write a second sentence with a verb"),
    ];
    phrases.into_iter().map(|(words, advice)| (pattern(words), advice)).collect()
});

/// All of them at once: most texts have none.
static ANY_PHRASE: LazyLock<Regex> =
    LazyLock::new(|| pattern(&PHRASES.iter().map(|(phrase, _)| format!("(?:{phrase})")).collect::<Vec<_>>().join("|")));

/// "is no" is right in front of these words only.
static IS_NO: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:\bthere )?\b(?:is|are) no ([a-z`]+)"));
const AFTER_IS_NO: &[&str] = &["longer", "more", "one", "such", "need", "way", "limit", "other", "error"];

/// Words that a doc comment may add to the name of its item without saying more.
const FILLERS: &[&str] = &["the", "a", "an", "of", "this", "its", "that", "one", "s"];

fn pattern(words: &str) -> Regex {
    regex::RegexBuilder::new(words).case_insensitive(true).build().unwrap_or_else(|error| panic!("{words}: {error}"))
}

impl Text {
    /// Applies all rules.
    pub fn check(&self) -> Vec<Finding> {
        let prose = without_code(&self.prose);
        let mut found = Vec::new();
        let mut add = |advice, words: &str| {
            let words = words.split_whitespace().take(12).collect::<Vec<_>>().join(" ");
            found.push(Finding { file: self.file.clone(), line: self.line, advice, words });
        };
        let phrases = if ANY_PHRASE.is_match(&prose) { &PHRASES[..] } else { &[] };
        for (phrase, advice) in phrases {
            phrase.find_iter(&prose).for_each(|words| add(advice, words.as_str()));
        }
        for words in IS_NO.captures_iter(&prose) {
            if !words[0].to_lowercase().starts_with("there") && !AFTER_IS_NO.contains(&&words[1]) {
                add("write `is not a`", &words[0]);
            }
        }
        let is_prose = matches!(self.kind, Kind::Doc | Kind::PrivateDoc { .. } | Kind::Page);
        for sentence in sentences(&prose).filter(|_| is_prose) {
            // A cell of a table may be a phrase, and a compound such as "how-to" is one word.
            let is_phrase = self.prose.starts_with('|') || sentence.to_lowercase().starts_with("how-to");
            if OPENING.is_match(sentence) && !sentence.ends_with('?') && !is_phrase {
                add("begin with a verb or a noun", sentence);
            }
            if sentence.split_whitespace().count() > LONGEST_SENTENCE {
                add("write sentences of at most 40 words", sentence);
            }
        }
        match &self.kind {
            Kind::PrivateDoc { item } if repeats(&prose, item) => add("delete a doc that repeats the name", &prose),
            Kind::Error if prose.ends_with('.') && !prose.ends_with("..") => {
                add("end an error without a full stop", &prose);
            }
            Kind::Error if prose.starts_with(|first: char| first.is_uppercase()) && !is_name(&prose) => {
                add("begin an error in lower case", &prose);
            }
            _ => {}
        }
        found
    }
}

/// Returns true if the first word is an abbreviation or a name, such as `MCP` or `OpenAI`.
fn is_name(prose: &str) -> bool {
    let first = prose.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    first.len() == 1
        || first.chars().skip(1).any(char::is_uppercase)
        || ["Postgres", "Restate", "Rust"].contains(&first)
}

fn repeats(prose: &str, item: &str) -> bool {
    let said = words(prose);
    let name = words(&split_name(item));
    !said.is_empty() && said.iter().all(|word| name.contains(word))
}

/// The words of a text in lower case, without fillers and the plural.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let words = words.map(str::to_lowercase).filter(|word| !FILLERS.contains(&word.as_str()));
    words.map(|word| word.trim_end_matches('s').to_owned()).collect()
}

/// `RunStore` and `run_store` as words.
fn split_name(name: &str) -> String {
    name.chars().flat_map(|letter| letter.is_uppercase().then_some(' ').into_iter().chain([letter])).collect()
}

/// The text without code, except its backticks, and with links reduced to their words.
fn without_code(text: &str) -> String {
    static CODE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)```.*?(```|$)"));
    static TARGET: LazyLock<Regex> = LazyLock::new(|| pattern(r"\]\([^)]*\)"));
    let prose = CODE.replace_all(text, "");
    // Every second part is code.
    let words: Vec<&str> =
        prose.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
    TARGET.replace_all(&words.join("`"), "]").into_owned()
}

/// The sentences of a text. A blank line, a list item, a table cell and a heading end one, too.
fn sentences(prose: &str) -> impl Iterator<Item = &str> {
    static END: LazyLock<Regex> = LazyLock::new(|| pattern(r"[.!?]\s+|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s|\s\|\s|\n\|"));
    let mut from = 0;
    let ends = END
        .find_iter(prose)
        .map(|end| (end.start() + usize::from(!prose[end.start()..].starts_with(['\n', ' '])), end.end()));
    let cuts: Vec<(usize, usize)> = ends.chain([(prose.len(), prose.len())]).collect();
    cuts.into_iter().map(move |(end, next)| {
        let sentence = &prose[from..end];
        from = next;
        sentence.trim().trim_start_matches(['*', '#', '-', '|', ' '])
    })
}

/// The doc comments and messages of a source file. Modules for tests are left out.
///
/// # Panics
///
/// If the source is not Rust.
pub fn of_source(file: &str, source: &str) -> Vec<Text> {
    let tokens: TokenStream = source.parse().unwrap_or_else(|error| panic!("{file}: cannot be read as Rust: {error}"));
    let mut texts = Vec::new();
    Reader { file, texts: &mut texts, in_public_body: false }.tokens(tokens);
    texts
}

struct Reader<'a> {
    file: &'a str,
    texts: &'a mut Vec<Text>,
    /// True for items of an enum or trait, which are as public as it is.
    in_public_body: bool,
}

/// The doc comment in front of an item, while it is read.
#[derive(Default)]
struct Pending {
    lines: Vec<String>,
    line: usize,
    is_test: bool,
}

impl Reader<'_> {
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut pending, mut at, mut body_follows) = (Pending::default(), 0, false);
        while at < tokens.len() {
            if let Some((attribute, inner, length)) = attribute(&tokens[at..]) {
                self.attribute(&attribute, inner, &mut pending);
                at += length;
                continue;
            }
            if !pending.lines.is_empty() {
                self.doc(&pending, &tokens[at..]);
            }
            let is_test = std::mem::take(&mut pending).is_test;
            match &tokens[at] {
                TokenTree::Ident(word) if is_test && word == "mod" => at += 2,
                TokenTree::Ident(word) if word == "enum" || word == "trait" => body_follows = true,
                TokenTree::Group(group) => {
                    let is_body = body_follows && group.delimiter() == Delimiter::Brace;
                    let outside = self.in_public_body;
                    self.in_public_body |= is_body;
                    self.tokens(group.stream());
                    self.in_public_body = outside;
                    body_follows &= !is_body;
                }
                TokenTree::Literal(literal) => self.literal(literal, Kind::Message),
                _ => {}
            }
            at += 1;
        }
    }

    fn attribute(&mut self, tokens: &[TokenTree], inner: bool, pending: &mut Pending) {
        match tokens {
            [TokenTree::Ident(name), _, TokenTree::Literal(text)] if name == "doc" => {
                let Some(prose) = string(text) else { return };
                let line = text.span().start().line;
                if inner {
                    // The lines of a module's doc follow each other.
                    match self.texts.last_mut() {
                        Some(last)
                            if last.kind == Kind::Doc && last.line + last.prose.matches('\n').count() + 1 == line =>
                        {
                            last.prose.push('\n');
                            last.prose.push_str(prose.strip_prefix(' ').unwrap_or(&prose));
                        }
                        _ => self.text(line, Kind::Doc, &prose),
                    }
                } else {
                    pending.line = if pending.lines.is_empty() { line } else { pending.line };
                    pending.lines.push(prose);
                }
            }
            [TokenTree::Ident(name), TokenTree::Group(within)] if name == "error" => {
                if let Some(TokenTree::Literal(text)) = within.stream().into_iter().next() {
                    self.literal(&text, Kind::Error);
                }
            }
            [TokenTree::Ident(name), TokenTree::Group(within)] if name == "cfg" => {
                pending.is_test |= within.stream().to_string() == "test";
            }
            [TokenTree::Ident(_), TokenTree::Group(within)] => self.tokens(within.stream()),
            _ => {}
        }
    }

    fn doc(&mut self, pending: &Pending, item: &[TokenTree]) {
        let public = matches!(item.first(), Some(TokenTree::Ident(word)) if word == "pub")
            && !matches!(item.get(1), Some(TokenTree::Group(_)));
        let keywords = ["pub", "struct", "enum", "trait", "type", "fn", "const", "static", "async", "mod", "union"];
        let name = item.iter().find_map(|token| match token {
            TokenTree::Ident(word) if keywords.iter().all(|keyword| word != keyword) => Some(word.to_string()),
            _ => None,
        });
        let kind = match name {
            Some(item) if !public && !self.in_public_body => Kind::PrivateDoc { item },
            _ => Kind::Doc,
        };
        self.text(pending.line, kind, &pending.lines.join("\n"));
    }

    fn literal(&mut self, literal: &Literal, kind: Kind) {
        if let Some(prose) = string(literal)
            && (kind == Kind::Error || prose.split_whitespace().count() > 3)
        {
            self.text(literal.span().start().line, kind, &prose);
        }
    }

    fn text(&mut self, line: usize, kind: Kind, prose: &str) {
        let prose = prose.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n");
        self.texts.push(Text { file: self.file.to_owned(), line, kind, prose });
    }
}

/// The tokens of the attribute that stands first, whether it is an inner one, and its length.
fn attribute(tokens: &[TokenTree]) -> Option<(Vec<TokenTree>, bool, usize)> {
    let sign =
        |at: usize, sign: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == sign);
    let inner = sign(1, '!');
    let at = if inner { 2 } else { 1 };
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if sign(0, '#') => Some((group.stream().into_iter().collect(), inner, at + 1)),
        _ => None,
    }
}

/// The value of a string literal, with `\` at a line's end joined.
fn string(literal: &Literal) -> Option<String> {
    static JOINED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\\n\s*"));
    let text = literal.to_string();
    if let Some(raw) = text.strip_prefix('r') {
        let raw = raw.trim_matches('#');
        return Some(raw.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    }
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    Some(JOINED.replace_all(text, "").replace("\\n", "\n").replace("\\\"", "\"").replace("\\'", "'"))
}

/// The paragraphs of a page, and its lines that are too long to be read.
pub fn of_page(file: &str, page: &str) -> (Vec<Text>, Vec<Finding>) {
    let (mut texts, mut wide): (Vec<Text>, Vec<Finding>) = (Vec::new(), Vec::new());
    let (mut in_code, mut open) = (false, false);
    for (number, line) in page.lines().enumerate().map(|(number, line)| (number + 1, line)) {
        let is_table = line.starts_with('|');
        if line.chars().count() > 120 && !is_table && !line.contains("http") {
            let words = line.split_whitespace().take(8).collect::<Vec<_>>().join(" ");
            wide.push(Finding { file: file.to_owned(), line: number, advice: "break lines at 120 columns", words });
        }
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        if fence || in_code || line.trim().is_empty() || line.starts_with('#') || line.starts_with('<') {
            open = false;
            continue;
        }
        if let Some(last) = texts.last_mut().filter(|_| open && !is_table) {
            last.prose.push('\n');
            last.prose.push_str(line);
        } else {
            texts.push(Text { file: file.to_owned(), line: number, kind: Kind::Page, prose: line.to_owned() });
        }
        open = !is_table;
    }
    (texts, wide)
}
