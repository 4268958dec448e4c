//! The return for people and for programs.

use serde_json::{Value, json};

use crate::artifact::{Filing, Line, OpenPosition, Origin};

/// The number of listed origins of a number. The JSON contains all of them.
const LISTED: usize = 4;

/// The return as text.
pub(crate) fn text(filing: &Filing) -> String {
    let mut lines = vec![format!("Tax return {} of {}", filing.taxpayer.year, filing.taxpayer.name), String::new()];
    lines.extend(filing.lines.iter().map(line));
    let bank = &filing.bank;
    lines.push(String::new());
    lines.push(format!(
        "{} documents; {} positions at the bank: {} with a document, {} explained, {} open",
        filing.documents,
        bank.positions,
        bank.with_document,
        bank.explained,
        bank.open.len()
    ));
    let open = bank.open.iter().map(|OpenPosition { position, why }| {
        let place = &position.place;
        let (file, line) = (&place.file, place.line);
        format!("{file}:{line}: {} {} {}: {why}", position.date, position.text, position.amount)
    });
    section(&mut lines, "Look at these positions:", open);
    section(&mut lines, "Papers and bank do not agree:", filing.differences.iter().cloned());
    section(&mut lines, "Odd papers:", filing.remarks.iter().cloned());
    lines.join("\n")
}

fn line(line: &Line) -> String {
    let mut from: Vec<String> = line.from.iter().take(LISTED).map(Origin::to_string).collect();
    if line.from.len() > LISTED {
        from.push(format!("and {} more", line.from.len() - LISTED));
    }
    format!("{:>2}  {:<32}{:>12}   {}", line.number, line.label, line.amount, from.join(", "))
}

fn section(lines: &mut Vec<String>, title: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        lines.push(String::new());
        lines.push(title.to_owned());
        lines.extend(items.map(|item| format!("  {item}")));
    }
}

/// The return as JSON: amounts are texts with two decimals.
pub(crate) fn json(filing: &Filing) -> Value {
    let lines = filing.lines.iter().map(|line| {
        json!({
            "number": line.number,
            "label": line.label,
            "amount": line.amount.plain(),
            "from": line.from.iter().map(Origin::to_string).collect::<Vec<_>>(),
        })
    });
    let open = filing.bank.open.iter().map(|OpenPosition { position, why }| {
        json!({
            "position": position.number,
            "date": position.date.to_string(),
            "text": position.text,
            "amount": position.amount.plain(),
            "from": Origin::Paper(position.place.clone()).to_string(),
            "why": why,
        })
    });
    json!({
        "taxpayer": filing.taxpayer.name,
        "year": filing.taxpayer.year,
        "documents": filing.documents,
        "lines": lines.collect::<Vec<_>>(),
        "bank": {
            "positions": filing.bank.positions,
            "with_document": filing.bank.with_document,
            "explained": filing.bank.explained,
            "open": open.collect::<Vec<_>>(),
        },
        "differences": filing.differences,
        "remarks": filing.remarks,
    })
}
