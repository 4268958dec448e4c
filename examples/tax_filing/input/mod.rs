//! Reads and parses the papers of a case. Reports all of their problems at once.

mod date;
mod forms;
mod paper;
mod problem;
mod statement;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use forms::{Contract, Income, IncomeKind, Receipt, Rule, Taxpayer, Voucher};
pub(crate) use problem::{Problem, Problems};
pub(crate) use statement::Position;

use crate::money::Money;

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) file: Arc<str>,
    pub(crate) text: Arc<str>,
}

/// A line of a file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
}

/// An amount and its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) amount: Money,
    pub(crate) place: Place,
}

/// The contents of the papers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Records {
    pub(crate) taxpayer: Taxpayer,
    pub(crate) incomes: Vec<Income>,
    pub(crate) vouchers: Vec<Voucher>,
    pub(crate) contracts: Vec<Contract>,
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) positions: Vec<Position>,
}

/// Reads the `.txt` and `.csv` files of a folder in the order of their names. Ignores other files.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<Document>, Problems> {
    let whole = |what: String| Problems(vec![Problem::of_file(&folder.display().to_string(), what)]);
    let entries = fs::read_dir(folder).map_err(|error| whole(format!("cannot read the folder: {error}")))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| whole(format!("cannot read the folder: {error}")))?.path();
        if path.extension().is_some_and(|extension| extension == "txt" || extension == "csv") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(whole("there is no `.txt` or `.csv` file in it".to_owned()));
    }
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match fs::read_to_string(&path) {
            Ok(text) => documents.push(Document { file: name.into(), text: text.into() }),
            Err(error) => problems.push(Problem::of_file(&name, format!("cannot be read: {error}"))),
        }
    }
    // The other files may have problems too. All are reported at once.
    if let Err(Problems(more)) = parse(&documents) {
        problems.extend(more);
    }
    if problems.is_empty() { Ok(documents) } else { Err(Problems(problems)) }
}

/// Parses the documents, or returns all of their problems.
pub(crate) fn parse(documents: &[Document]) -> Result<Records, Problems> {
    let mut forms = forms::Forms::default();
    let mut positions = Vec::new();
    let mut problems = Vec::new();
    for document in documents {
        if document.file.ends_with(".csv") {
            statement::read(document, &mut positions, &mut problems);
        } else {
            forms.read(document, &mut problems);
        }
    }
    let statements = documents.iter().filter(|document| document.file.ends_with(".csv")).count();
    if statements == 0 {
        problems.push(Problem::of_case("there is no bank statement: a `.csv` file with `date,description,amount`"));
    }
    forms.records(positions, problems)
}
