//! The arithmetic of the return: a small part of the federal rules of 2025 for a single person. It shows where numbers
//! come from and is not tax advice.
//!
//! | rule | here |
//! |---|---|
//! | income tax | the brackets below, on ordinary income; qualified dividends are not treated apart |
//! | deduction | 15,750, or the gifts if they are more |
//! | self-employment | 92.35 % of the profit: 12.4 % up to 176,100 less the wages, and 2.9 %; half of it is deducted |
//! | business expenses | with a document and a payment; meals count half, contracts by their business share |

use crate::artifact::{Accounts, Line, Match, Origin};
use crate::input::{Figure, Income, IncomeKind, Place, Records};
use crate::money::Money;
use imbl::OrdMap;

/// The upper limits of incomes in dollars with their rates in percent. Above the last limit [`TOP_RATE`] applies.
const BRACKETS: [(i64, i64); 6] =
    [(11_925, 10), (48_475, 12), (103_350, 22), (197_300, 24), (250_525, 32), (626_350, 35)];
const TOP_RATE: i64 = 37;
const STANDARD_DEDUCTION: Money = Money::dollars(15_750);
const SOCIAL_SECURITY_BASE: Money = Money::dollars(176_100);
/// The categories of gifts and of meals.
const CHARITY: &str = "charity";
const MEALS: &str = "meals";

/// Computes the income tax.
pub(crate) fn income_tax(taxable: Money) -> Money {
    let (mut tax, mut below) = (Money::ZERO, Money::ZERO);
    for (limit, rate) in BRACKETS {
        let limit = Money::dollars(limit);
        tax += (taxable.min(limit) - below).max(Money::ZERO).times(rate, 100);
        below = limit;
    }
    tax + (taxable - below).max(Money::ZERO).times(TOP_RATE, 100)
}

/// Computes the self-employment tax of a person who also has wages.
pub(crate) fn self_employment_tax(profit: Money, wages: Money) -> Money {
    let earnings = profit.max(Money::ZERO).times(9_235, 10_000);
    let room = (SOCIAL_SECURITY_BASE - wages).max(Money::ZERO);
    earnings.min(room).times(124, 1_000) + earnings.times(29, 1_000)
}

/// Computes the return from the papers and the matched positions.
pub(crate) fn accounts(records: &Records, matches: &OrdMap<u32, Match>) -> Accounts {
    let bank = Bank::of(records, matches);
    let mut sheet = Sheet::default();
    let wages = sheet.sum("Wages", of_kind(records, IncomeKind::Wages));
    let interest = sheet.sum("Interest", of_kind(records, IncomeKind::Interest));
    let dividends = sheet.sum("Ordinary dividends", of_kind(records, IncomeKind::Dividends));
    let receipts = sheet.sum("Gross receipts of the business", of_kind(records, IncomeKind::Nonemployee));
    let expenses = sheet.sum("Business expenses", expenses(records, &bank));
    let profit = sheet.made("Net profit", receipts.1 - expenses.1, &[receipts.0, expenses.0]);
    let own = self_employment_tax(profit.1, wages.1);
    let own = sheet.made("Self-employment tax", own, &[profit.0, wages.0]);
    let half = sheet.made("Half of the self-employment tax", own.1.times(1, 2), &[own.0]);
    let gross = wages.1 + interest.1 + dividends.1 + profit.1 - half.1;
    let gross = sheet.made("Adjusted gross income", gross, &[wages.0, interest.0, dividends.0, profit.0, half.0]);
    let deduction = sheet.deduction(gifts(records, &bank));
    let taxable = (gross.1 - deduction.1).max(Money::ZERO);
    let taxable = sheet.made("Taxable income", taxable, &[gross.0, deduction.0]);
    let tax = sheet.made("Income tax", income_tax(taxable.1), &[taxable.0]);
    let total = sheet.made("Total tax", tax.1 + own.1, &[tax.0, own.0]);
    let withheld = sheet.sum("Federal income tax withheld", records.incomes.iter().filter_map(|i| i.withheld.clone()));
    let vouchers = records.vouchers.iter().filter(|voucher| bank.has(&voucher.file));
    let estimated = sheet.sum("Estimated tax paid", vouchers.map(|voucher| voucher.amount.clone()));
    let balance = withheld.1 + estimated.1 - total.1;
    let label = if balance < Money::ZERO { "Amount owed" } else { "Refund" };
    sheet.made(label, balance.max(-balance), &[withheld.0, estimated.0, total.0]);
    Accounts { lines: sheet.lines, differences: differences(records, &bank) }
}

/// The payments at the bank for each document.
struct Bank(OrdMap<String, (usize, Money)>);

impl Bank {
    fn of(records: &Records, matches: &OrdMap<u32, Match>) -> Self {
        let mut files = OrdMap::new();
        for position in &records.positions {
            if let Some(Match::Document(file)) = matches.get(&position.number) {
                let (count, sum) = files.entry(file.to_string()).or_insert((0, Money::ZERO));
                *count += 1;
                *sum += position.amount;
            }
        }
        Self(files)
    }

    fn get(&self, file: &str) -> (usize, Money) {
        self.0.get(file).copied().unwrap_or_default()
    }

    fn has(&self, file: &str) -> bool {
        self.get(file).0 > 0
    }
}

fn of_kind(records: &Records, kind: IncomeKind) -> impl Iterator<Item = Figure> {
    records.incomes.iter().filter(move |income| income.kind == kind).map(|income| income.gross.clone())
}

/// The expenses of the business.
fn expenses(records: &Records, bank: &Bank) -> impl Iterator<Item = Figure> {
    let share = |figure: &Figure, percent: i64, times: i64| Figure {
        amount: figure.amount.times(percent * times, 100),
        place: figure.place.clone(),
    };
    let receipts = records.receipts.iter().filter(|receipt| receipt.category != CHARITY && bank.has(&receipt.file));
    let receipts =
        receipts.map(move |receipt| share(&receipt.total, if receipt.category == MEALS { 50 } else { 100 }, 1));
    let contracts = records.contracts.iter().filter(|contract| contract.share > 0).map(move |contract| {
        let times = i64::try_from(bank.get(&contract.file).0).unwrap_or_default();
        share(&contract.monthly, i64::from(contract.share), times)
    });
    contracts.chain(receipts)
}

fn gifts(records: &Records, bank: &Bank) -> impl Iterator<Item = Figure> {
    let gifts = records.receipts.iter().filter(|receipt| receipt.category == CHARITY && bank.has(&receipt.file));
    gifts.map(|receipt| receipt.total.clone())
}

/// The differences between papers and bank.
fn differences(records: &Records, bank: &Bank) -> Vec<String> {
    let incomes = records.incomes.iter().filter_map(|income: &Income| {
        let Place { file, line } = &income.gross.place;
        let (paid, (_, received)) = (income.paid_out(), bank.get(&income.file));
        let more = if received > paid { "more" } else { "less" };
        let by = (received - paid).max(paid - received);
        (by != Money::ZERO).then(|| {
            format!("{file}:{line}: the bank received {received} from {}, {by} {more} than the form says", income.payer)
        })
    });
    let unpaid = |figure: &Figure, what: &str| {
        let Place { file, line } = &figure.place;
        format!("{file}:{line}: no position pays these {} for {what}: not counted", figure.amount)
    };
    let receipts = records.receipts.iter().filter(|receipt| !bank.has(&receipt.file));
    let vouchers = records.vouchers.iter().filter(|voucher| !bank.has(&voucher.file));
    let contracts = records.contracts.iter().filter(|contract| !bank.has(&contract.file));
    incomes
        .chain(receipts.map(|receipt| unpaid(&receipt.total, &receipt.category)))
        .chain(vouchers.map(|voucher| unpaid(&voucher.amount, "estimated tax")))
        .chain(contracts.map(|contract| unpaid(&contract.monthly, &contract.category)))
        .collect()
}

/// The lines written so far.
#[derive(Default)]
struct Sheet {
    lines: Vec<Line>,
}

/// The number of a line, and its amount.
type Entry = (u8, Money);

impl Sheet {
    fn line(&mut self, label: &str, amount: Money, from: Vec<Origin>) -> Entry {
        let number = u8::try_from(self.lines.len() + 1).unwrap_or(u8::MAX);
        self.lines.push(Line { number, label: label.to_owned(), amount, from });
        (number, amount)
    }

    /// Adds a line with the sum of figures of the papers.
    fn sum(&mut self, label: &str, figures: impl Iterator<Item = Figure>) -> Entry {
        let figures: Vec<Figure> = figures.collect();
        let amount = figures.iter().map(|figure| figure.amount).sum();
        self.line(label, amount, figures.into_iter().map(|figure| Origin::Paper(figure.place)).collect())
    }

    /// Adds a line that is computed from other lines.
    fn made(&mut self, label: &str, amount: Money, from: &[u8]) -> Entry {
        self.line(label, amount, from.iter().map(|number| Origin::Line(*number)).collect())
    }

    /// The standard deduction, or the gifts.
    fn deduction(&mut self, gifts: impl Iterator<Item = Figure>) -> Entry {
        let gifts: Vec<Figure> = gifts.collect();
        let given: Money = gifts.iter().map(|gift| gift.amount).sum();
        if given > STANDARD_DEDUCTION {
            return self.sum("Gifts", gifts.into_iter());
        }
        let rule = format!("the standard deduction, since gifts are {given}");
        self.line("Deduction", STANDARD_DEDUCTION, vec![Origin::Rule(rule)])
    }
}
