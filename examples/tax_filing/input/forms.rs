//! The papers other than bank statements.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::date::Date;
use super::paper::Paper;
use super::problem::{Problem, Problems};
use super::statement::Position;
use super::{Document, Figure, Place, Records};
use crate::money::Money;

/// The taxpayer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Taxpayer {
    pub(crate) name: String,
    pub(crate) year: u16,
}

/// The kind of income of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IncomeKind {
    Wages,
    Interest,
    Dividends,
    Nonemployee,
}

/// A W-2 or 1099 form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Income {
    pub(crate) kind: IncomeKind,
    pub(crate) file: Arc<str>,
    pub(crate) payer: String,
    pub(crate) recipient: String,
    pub(crate) year: u16,
    pub(crate) gross: Figure,
    /// Federal income tax, withheld from wages.
    pub(crate) withheld: Option<Figure>,
    /// Social security and Medicare taxes, withheld from wages.
    pub(crate) social: Vec<Figure>,
}

impl Income {
    /// Returns the amount that must have arrived at the bank.
    pub(crate) fn paid_out(&self) -> Money {
        let withheld = self.withheld.iter().chain(&self.social).map(|figure| figure.amount);
        self.gross.amount - withheld.sum()
    }
}

/// A payment of estimated tax.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Voucher {
    pub(crate) file: Arc<str>,
    pub(crate) payee: String,
    pub(crate) amount: Figure,
}

/// A contract with monthly payments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contract {
    pub(crate) file: Arc<str>,
    pub(crate) vendor: String,
    pub(crate) category: String,
    pub(crate) monthly: Figure,
    /// The business share in percent.
    pub(crate) share: u8,
}

/// A purchase or a gift.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) file: Arc<str>,
    pub(crate) vendor: String,
    pub(crate) category: String,
    pub(crate) date: Date,
    pub(crate) total: Figure,
}

/// A word that explains a position without a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub(crate) word: String,
    pub(crate) reason: String,
    pub(crate) place: Place,
}

/// The papers that were read so far.
#[derive(Default)]
pub(crate) struct Forms {
    taxpayer: Option<Taxpayer>,
    incomes: Vec<Income>,
    /// True if there is such a paper, even one with mistakes.
    has_taxpayer: bool,
    has_wages: bool,
    vouchers: Vec<Voucher>,
    contracts: Vec<Contract>,
    receipts: Vec<Receipt>,
    rules: Vec<Rule>,
}

impl Forms {
    /// Reads a paper. If it has a mistake, reports it and omits the paper.
    pub(crate) fn read(&mut self, document: &Document, problems: &mut Vec<Problem>) {
        let mut paper = Paper::new(document, problems);
        match paper.title {
            "TAXPAYER" => {
                self.has_taxpayer = true;
                self.taxpayer = taxpayer(&mut paper).or(self.taxpayer.take());
            }
            "FORM W-2" => {
                self.has_wages = true;
                self.incomes.extend(wages(&mut paper));
            }
            "FORM 1099-INT" => self.incomes.extend(other_income(&mut paper, IncomeKind::Interest, "Box 1")),
            "FORM 1099-DIV" => self.incomes.extend(other_income(&mut paper, IncomeKind::Dividends, "Box 1a")),
            "FORM 1099-NEC" => self.incomes.extend(other_income(&mut paper, IncomeKind::Nonemployee, "Box 1")),
            "FORM 1040-ES" => self.vouchers.extend(voucher(&mut paper)),
            "CONTRACT" => self.contracts.extend(contract(&mut paper)),
            "RECEIPT" => self.receipts.extend(receipt(&mut paper)),
            "RULES" => self.rules.extend(paper.lines().map(|(place, word, reason)| Rule {
                word: word.to_uppercase(),
                reason: reason.to_owned(),
                place,
            })),
            title => paper.wrong(
                1,
                format!(
                    "`{title}` is not a known paper: TAXPAYER, FORM W-2, FORM 1099-INT, FORM 1099-DIV, FORM 1099-NEC, \
                     FORM 1040-ES, CONTRACT, RECEIPT or RULES"
                ),
            ),
        }
    }

    /// Returns all records, or all problems.
    pub(crate) fn records(self, positions: Vec<Position>, mut problems: Vec<Problem>) -> Result<Records, Problems> {
        if !self.has_wages {
            problems.push(Problem::of_case("there is no W-2: a file whose first line is `FORM W-2`"));
        }
        if !self.has_taxpayer {
            problems.push(Problem::of_case("there is no taxpayer: a file whose first line is `TAXPAYER`"));
        }
        let (Some(taxpayer), true) = (self.taxpayer, problems.is_empty()) else { return Err(Problems(problems)) };
        let Self { incomes, vouchers, contracts, receipts, rules, .. } = self;
        Ok(Records { taxpayer, incomes, vouchers, contracts, receipts, rules, positions })
    }
}

/// The only supported filing status.
const STATUS: &str = "single";

fn taxpayer(paper: &mut Paper<'_>) -> Option<Taxpayer> {
    let (name, year) = (paper.text("Name"), paper.number("Tax year", ""));
    let (line, status) = paper.line("Filing status")?;
    if status != STATUS {
        paper.wrong(line, format!("the filing status `{status}` is not supported; use `{STATUS}`"));
        return None;
    }
    Some(Taxpayer { name: name?, year: year? })
}

fn wages(paper: &mut Paper<'_>) -> Option<Income> {
    let (from, recipient, year) = (paper.text("Employer"), paper.text("Employee"), paper.number("Tax year", ""));
    let (gross, withheld) = (paper.figure("Box 1"), paper.figure("Box 2"));
    let (security, medicare) = (paper.figure("Box 4"), paper.figure("Box 6"));
    Some(Income {
        kind: IncomeKind::Wages,
        file: paper.file.clone(),
        payer: from?,
        recipient: recipient?,
        year: year?,
        gross: gross?,
        withheld: Some(withheld?),
        social: vec![security?, medicare?],
    })
}

fn other_income(paper: &mut Paper<'_>, kind: IncomeKind, name: &str) -> Option<Income> {
    let (from, recipient, year) = (paper.text("Payer"), paper.text("Recipient"), paper.number("Tax year", ""));
    let gross = paper.figure(name);
    Some(Income {
        kind,
        file: paper.file.clone(),
        payer: from?,
        recipient: recipient?,
        year: year?,
        gross: gross?,
        withheld: None,
        social: Vec::new(),
    })
}

fn voucher(paper: &mut Paper<'_>) -> Option<Voucher> {
    let (payee, amount) = (paper.text("Payee"), paper.figure("Amount"));
    Some(Voucher { file: paper.file.clone(), payee: payee?, amount: amount? })
}

fn contract(paper: &mut Paper<'_>) -> Option<Contract> {
    let (vendor, category) = (paper.text("Vendor"), paper.text("Category"));
    let (monthly, share) = (paper.figure("Monthly"), paper.number("Business share", "%"));
    if share.is_some_and(|share: u8| share > 100) {
        paper.wrong_as_a_whole("`Business share` is more than 100 %".to_owned());
        return None;
    }
    Some(Contract { file: paper.file.clone(), vendor: vendor?, category: category?, monthly: monthly?, share: share? })
}

fn receipt(paper: &mut Paper<'_>) -> Option<Receipt> {
    let (vendor, category, date) = (paper.text("Vendor"), paper.text("Category"), paper.date("Date"));
    let total = paper.figure("Total")?;
    let items: Vec<_> = paper.lines().filter(|(_, name, _)| *name == "Item").collect();
    let mut sum = Money::ZERO;
    for (place, _, item) in items {
        let amount = item.rsplit_once(':').map_or(item, |(_, amount)| amount.trim());
        sum += paper.amount(place.line, "Item", amount)?;
    }
    if sum != total.amount {
        paper.wrong(total.place.line, format!("the total is {}, and the items make {sum}", total.amount));
        return None;
    }
    Some(Receipt { file: paper.file.clone(), vendor: vendor?, category: category?, date: date?, total })
}
