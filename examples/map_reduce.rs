//! Map-reduce over real files: counts the words of this repository's documents.
//!
//! `find` lists the documents, `for file in files { count(file) }` starts one task of `count` for each, all in one step,
//! and `rank` runs once, when all of them have ended. The reducers of the state merge their results.
//!
//! The compiler checks the types: `count` takes a `Sent<PathBuf>`, so `files` must return paths, and no plain edge may
//! lead to `count`. Many tasks write `words` in one step, which needs a reducer.
//!
//! Run it: `cargo run --example map_reduce`, or with your own files and folders: `… -- README.md docs`

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hier::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Corpus {
    /// The files, and the folders that are searched at any depth.
    roots: Vec<PathBuf>,
    files: Vec<PathBuf>,
    #[reducer(append)]
    documents: Vec<Document>,
    #[reducer(sum)]
    lines: usize,
    #[reducer(sum)]
    words: usize,
    #[reducer(with = add_counts)]
    counts: BTreeMap<String, usize>,
    #[reducer(append)]
    problems: Vec<String>,
    top: Vec<(String, usize)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Document {
    path: PathBuf,
    lines: usize,
    words: usize,
    distinct: usize,
}

graph! {
    /// Counts the words of documents: map, join, reduce.
    WordCount<Corpus> = Graph {
        nodes: [find, count, rank],
        edges: [
            START >> find >> for file in files { count(file) },
            count >> rank >> END,
        ],
    }
}

/// Lists the documents below the roots. Unreadable ones are reported and do not stop the run.
async fn find(corpus: &Corpus) -> CorpusUpdate {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    let mut open = corpus.roots.clone();
    while let Some(path) = open.pop() {
        match entries(&path).await {
            Ok(None) => files.push(path),
            Ok(Some(inside)) => open.extend(inside),
            Err(error) => problems.push(format!("{}: {error}", path.display())),
        }
    }
    files.sort();
    files.dedup();
    Corpus::update().files(files).problems(problems)
}

/// Lists the entries of a folder. Returns `None` for a file.
async fn entries(path: &Path) -> std::io::Result<Option<Vec<PathBuf>>> {
    if tokio::fs::metadata(path).await?.is_file() {
        return Ok(None);
    }
    let (mut folder, mut wanted) = (tokio::fs::read_dir(path).await?, Vec::new());
    while let Some(entry) = folder.next_entry().await? {
        // No links, which may be cyclic, no hidden files and no build results.
        let (kind, path, name) = (entry.file_type().await?, entry.path(), entry.file_name());
        let is_document = kind.is_file() && path.extension().is_some_and(|extension| extension == "md");
        let is_folder = kind.is_dir() && !name.to_string_lossy().starts_with('.') && name != "target";
        if is_document || is_folder {
            wanted.push(path);
        }
    }
    Ok(Some(wanted))
}

/// The route: one task for each file.
fn files(corpus: &Corpus) -> Vec<PathBuf> {
    corpus.files.clone()
}

/// Map: counts the words of one document.
async fn count(Sent(path): Sent<PathBuf>) -> CorpusUpdate {
    let text = match tokio::fs::read_to_string(&path).await {
        Ok(text) => text,
        Err(error) => return Corpus::update().problems([format!("{}: {error}", path.display())]),
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in text.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let (lines, words, distinct) = (text.lines().count(), counts.values().sum(), counts.len());
    let document = Document { path, lines, words, distinct };
    Corpus::update().documents([document]).lines(lines).words(words).counts(counts)
}

/// The reducer of `counts`: adds the counts of one document in place.
fn add_counts(all: &mut BTreeMap<String, usize>, new: BTreeMap<String, usize>) {
    for (word, count) in new {
        *all.entry(word).or_default() += count;
    }
}

/// Reduce: finds the most frequent words above a minimum length.
async fn rank(corpus: &Corpus) -> CorpusUpdate {
    let long = corpus.counts.iter().filter(|(word, _)| word.chars().count() >= MIN_LETTERS);
    let mut top: Vec<(String, usize)> = long.map(|(word, count)| (word.clone(), *count)).collect();
    top.sort_by(|(a, most), (b, more)| more.cmp(most).then_with(|| a.cmp(b)));
    top.truncate(TOP);
    Corpus::update().top(top)
}

const MIN_LETTERS: usize = 5;
const TOP: usize = 12;
const SHOWN: usize = 15;
const WIDTH: usize = 72;
const BAR: usize = 42;

#[tokio::main]
async fn main() -> Result<ExitCode, RunError> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let mut roots: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if roots.is_empty() {
        roots.push(repository.to_owned());
    }
    // At most 64 files are open at once.
    let config = Config::new().max_concurrency(64);
    let out = WordCount::compile().invoke(Corpus::update().roots(roots)).config(config).await?;
    let corpus = out.state();
    println!("{}", report(corpus, repository));
    Ok(if corpus.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(corpus: &Corpus, base: &Path) -> String {
    if corpus.files.is_empty() && corpus.problems.is_empty() {
        return "There are no documents (*.md) here.".to_owned();
    }
    let rule = "─".repeat(WIDTH);
    let mut page = vec![row("document", "lines", "words", "distinct"), rule.clone()];
    let mut largest: Vec<&Document> = corpus.documents.iter().collect();
    largest.sort_by_key(|document| Reverse(document.words));
    for Document { path, lines, words, distinct } in largest.iter().take(SHOWN) {
        page.push(row(&path.strip_prefix(base).unwrap_or(path).to_string_lossy(), lines, words, distinct));
    }
    if largest.len() > SHOWN {
        page.push(format!("… and {} smaller ones", largest.len() - SHOWN));
    }
    page.extend([rule, row(&format!("{} in all", largest.len()), corpus.lines, corpus.words, corpus.counts.len())]);
    if let Some((_, most)) = corpus.top.first() {
        page.push(format!("\nThe most frequent words of {MIN_LETTERS} letters and more\n"));
        let bar = |count: usize| "█".repeat((count * BAR).div_ceil(*most));
        page.extend(corpus.top.iter().map(|(word, count)| format!("{word:>18} {count:>6}  {}", bar(*count))));
    }
    if !corpus.problems.is_empty() {
        page.push("\nNot counted".to_owned());
        page.extend(corpus.problems.iter().map(|problem| format!("  {problem}")));
    }
    page.join("\n")
}

fn row(name: &str, lines: impl Display, words: impl Display, distinct: impl Display) -> String {
    format!("{name:42} {lines:>8} {words:>10} {distinct:>9}")
}
