//! The main job, started as a user would: the example `tax_filing` over the papers in the repository.

mod server;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const PAPERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/tax");
/// The number of model requests: 3 for each position, and 22 more.
const CALLS: usize = 622;
const INTERRUPTED: i32 = 130;

/// The example, built.
fn example() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| hier_tests::example("tax_filing"))
}

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(example());
    command.args(["--input", PAPERS]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the example starts")
}

fn run(arguments: &[&str]) -> Output {
    start(arguments).wait_with_output().expect("the example ends")
}

fn filed(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The return of the papers in the repository.
fn whole() -> &'static Value {
    static FILED: OnceLock<Value> = OnceLock::new();
    FILED.get_or_init(|| filed(&run(&["--quiet", "--json"])))
}

#[test]
fn numbers_are_right_and_name_their_sources() {
    let filing = whole();
    let lines: Vec<(u64, &str, &str)> = filing["lines"].as_array().expect("lines").iter().map(number).collect();
    // Computed by hand from the papers.
    let expected = [
        (1, "Wages", "75760.00"),
        (2, "Interest", "433.25"),
        (3, "Ordinary dividends", "952.55"),
        (4, "Gross receipts of the business", "20375.00"),
        (5, "Business expenses", "3635.88"),
        (6, "Net profit", "16739.12"),
        (7, "Self-employment tax", "2365.16"),
        (8, "Half of the self-employment tax", "1182.58"),
        (9, "Adjusted gross income", "92702.34"),
        (10, "Deduction", "15750.00"),
        (11, "Taxable income", "76952.34"),
        (12, "Income tax", "11843.51"),
        (13, "Total tax", "14208.67"),
        (14, "Federal income tax withheld", "8360.00"),
        (15, "Estimated tax paid", "4400.00"),
        (16, "Amount owed", "1448.67"),
    ];
    assert_eq!(lines, expected);
    for line in filing["lines"].as_array().expect("lines") {
        for origin in line["from"].as_array().expect("origins") {
            stands_there(line, origin.as_str().expect("a text"));
        }
    }
}

fn number(line: &Value) -> (u64, &str, &str) {
    let text = |name: &str| line[name].as_str().expect("a text");
    (line["number"].as_u64().expect("a number"), text("label"), text("amount"))
}

/// A place in a paper exists, and has an amount.
fn stands_there(line: &Value, origin: &str) {
    let Some((file, number)) = origin.rsplit_once(':') else {
        assert!(origin.starts_with("line ") || origin.starts_with("the standard deduction"), "{origin}");
        return;
    };
    let text = std::fs::read_to_string(Path::new(PAPERS).join(file)).expect("the paper");
    let number: usize = number.parse().expect("a line");
    let found = text.lines().nth(number - 1).expect("the line");
    assert!(found.contains(": ") && found.contains('.'), "{origin} of {line} is `{found}`");
}

#[test]
fn every_position_is_accounted_for() {
    let filing = whole();
    let bank = &filing["bank"];
    assert_eq!((bank["positions"].as_u64(), bank["with_document"].as_u64()), (Some(200), Some(150)));
    assert_eq!(bank["explained"].as_u64(), Some(46));
    let open = bank["open"].as_array().expect("a list").iter();
    let open: Vec<_> = open.map(|open| (open["text"].as_str().unwrap(), open["amount"].as_str().unwrap())).collect();
    let expected = [
        ("ZELLE FROM J PELL", "1250.00"),
        ("CHECK 1042", "-900.00"),
        ("WIRE IN 88213", "2400.00"),
        ("CARD VOLT & VECTOR", "-459.00"),
    ];
    assert_eq!(open, expected);
    let differences = filing["differences"].as_array().expect("a list");
    assert_eq!(differences.len(), 3, "{differences:?}");
    assert!(differences[0].as_str().unwrap().contains("8,000.00 from Osprey Analytics, 500.00 more"));
    assert_eq!(filing["remarks"], serde_json::json!([]));
}

#[test]
fn json_has_its_documented_fields() {
    let keys = |value: &Value| {
        let keys: BTreeSet<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
        keys.into_iter().collect::<Vec<_>>().join(" ")
    };
    let filing = whole();
    assert_eq!(keys(filing), "bank differences documents lines remarks taxpayer year");
    assert_eq!(keys(&filing["lines"][0]), "amount from label number");
    assert_eq!(keys(&filing["bank"]), "explained open positions with_document");
    assert_eq!(keys(&filing["bank"]["open"][0]), "amount date from position text why");
}

#[test]
fn output_shows_agents_and_the_return() {
    let output = run(&[]);
    let (shown, text) = (said(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    for line in ["  matching is running", "    position_matcher 150 of 200", "  reporting is done"] {
        assert_eq!(shown.lines().filter(|shown| *shown == line).count(), 1, "{line} in {shown}");
    }
    assert!(text.contains("16  Amount owed                         1,448.67   line 14, line 15, line 13"), "{text}");
    assert!(shown.ends_with("labels of the conversation: private, untrusted\n"), "{shown}");
    assert!(said(&run(&["--quiet"])).is_empty());
}

/// A folder with a database and a log.
struct Case {
    folder: TempDir,
}

impl Case {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn arguments(&self) -> Vec<String> {
        let arguments = ["--quiet", "--json", "--db", &self.path("case.db"), "--log", &self.path("log")];
        arguments.map(str::to_owned).to_vec()
    }

    fn start(&self, pace: &str) -> Child {
        let arguments = self.arguments();
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.extend(["--pace", pace]);
        start(&arguments)
    }

    /// Returns the model's requests.
    fn asked(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Waits until the model was asked so often.
    fn until(&self, process: &mut Child, calls: usize) {
        let begin = Instant::now();
        while self.asked().len() < calls {
            let has_ended = process.try_wait().expect("a process").is_some();
            assert!(!has_ended || self.asked().len() >= calls, "it ended too early");
            assert!(begin.elapsed() < Duration::from_mins(2), "it does not come so far");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Runs the case to its end: the return is the same as that of a run which was not disturbed, and so are the questions,
    /// but for one that may have been open each time.
    fn ends_well(&self, disturbed: usize) {
        let output = self.start("0").wait_with_output().expect("the example ends");
        assert_eq!(&filed(&output), whole());
        let asked = self.asked();
        let different: BTreeSet<&String> = asked.iter().collect();
        assert_eq!(different.len(), CALLS, "each question was asked");
        assert!(asked.len() <= CALLS + disturbed, "{} questions were asked again", asked.len() - CALLS);
        let again = self.start("0").wait_with_output().expect("the example ends");
        assert_eq!(&filed(&again), whole(), "the finished case is shown again");
        assert_eq!(self.asked().len(), asked.len(), "and the model is not asked any more");
    }
}

#[test]
fn killed_filing_continues_without_repeating_requests() {
    let case = Case::new();
    for calls in [3, 60, 250, 615] {
        let mut process = case.start("2");
        case.until(&mut process, calls);
        process.kill().expect("it can be killed");
        process.wait().expect("it is dead");
    }
    case.ends_well(4);
}

#[cfg(unix)]
#[test]
fn interrupted_filing_prints_how_to_continue() {
    let case = Case::new();
    let mut process = case.start("2");
    case.until(&mut process, 100);
    let signal = Command::new("kill").args(["-INT", &process.id().to_string()]).status();
    assert!(signal.expect("kill runs").success());
    let output = process.wait_with_output().expect("the example ends");
    assert_eq!(output.status.code(), Some(INTERRUPTED), "{}", said(&output));
    assert!(said(&output).starts_with("interrupted: start it again with `--db "), "{}", said(&output));
    case.ends_well(1);
}

/// A model is asked over HTTP. It gives the answers of the scripted one, so the return is the same.
#[test]
fn model_behind_http_files_the_same_return() {
    let scripted = Case::new();
    filed(&scripted.start("0").wait_with_output().expect("the example ends"));
    let asked = scripted.asked();
    let calls = asked.iter().map(|line| {
        let (_, call) = line.split_once(" -> ").expect("a call");
        let (name, arguments) = call.split_at(call.find('{').expect("arguments"));
        (name.to_owned(), arguments.to_owned())
    });
    let url = server::serve(calls.collect());
    let mut command = Command::new(example());
    command.args(["--input", PAPERS, "--quiet", "--json", "--model", &format!("{url}#script")]);
    let output = command.env("NO_PROXY", "127.0.0.1").output().expect("the example ends");
    assert_eq!(&filed(&output), whole());
}

/// A copy of the papers, to be broken.
fn copy(to: &Path) {
    for entry in std::fs::read_dir(PAPERS).expect("the papers") {
        let file = entry.expect("a paper").path();
        std::fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("a copy");
    }
}

fn change(folder: &Path, file: &str, from: &str, to: &str) {
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).expect("the paper");
    assert!(text.contains(from), "{file} has no `{from}`");
    std::fs::write(path, text.replacen(from, to, 1)).expect("a change");
}

#[test]
fn all_mistakes_are_reported_at_once_and_the_fixed_case_continues() {
    let papers = tempfile::tempdir().expect("a folder");
    let folder = papers.path();
    copy(folder);
    let wages = ["w2-harbor-light.txt", "w2-juniper-county.txt"];
    for file in wages {
        std::fs::remove_file(folder.join(file)).expect("it is gone");
    }
    change(folder, "bank.csv", "2025-01-03,PAYROLL HARBOR LIGHT CLINICS,1899.46", "2025-01-03;PAYROLL");
    change(folder, "bank.csv", "2025-01-11,LUMEN FIBER AUTOPAY,-64.99", "2025-02-30,LUMEN FIBER AUTOPAY,-64,99x");
    change(folder, "1099-int-fern.txt", "Box 1 Interest income: ", "Box 1 Interest income: about ");
    change(folder, "receipt-cab.txt", "Total: 18.50", "Total: 81.50");
    change(folder, "1099-div-aster.txt", "FORM 1099-DIV", "FORM 1099-XYZ");
    change(folder, "taxpayer.txt", "Tax year: 2025\n", "");
    std::fs::write(folder.join("receipt-broken.txt"), [0xff, 0xfe, 0x00]).expect("a file");
    let case = Case::new();
    let arguments = case.arguments();
    let input = folder.display().to_string();
    let again = || {
        let mut command = Command::new(example());
        command.args(["--input", &input]).args(&arguments).output().expect("the example ends")
    };
    let output = again();
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    for mistake in [
        "receipt-broken.txt: cannot be read",
        "1099-div-aster.txt:1: `FORM 1099-XYZ` is not a known paper",
        "1099-int-fern.txt:5: `Box 1` is `about ",
        "bank.csv:3: `2025-01-03;PAYROLL` does not have the three fields",
        "bank.csv:6: `2025-02-30` is not a date",
        "bank.csv:6: `99x` is not an amount",
        "receipt-cab.txt:6: the total is 81.50, and the items make 18.50",
        "taxpayer.txt: there is no line `Tax year: …`",
        "there is no W-2",
    ] {
        assert!(said.contains(mistake), "{mistake} in:\n{said}");
    }
    assert!(said.contains("9 mistakes") && !said.contains("panicked"), "{said}");
    std::fs::remove_file(folder.join("receipt-broken.txt")).expect("it is gone");
    copy(folder);
    assert_eq!(&filed(&again()), whole());
    assert_eq!(case.asked().len(), CALLS, "requests before the mistakes are not repeated");
}

#[test]
fn missing_folder_and_unknown_model_are_reported() {
    let mut command = Command::new(example());
    let output = command.args(["--quiet", "--input", "/no/such/folder"]).output().expect("the example ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("/no/such/folder: cannot read the folder"), "{}", said(&output));
    let output = run(&["--model", "nobody:knows"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("nobody"), "{}", said(&output));
    let output = run(&["--db", "/no/such/folder/case.db"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("/no/such/folder/case.db"), "{}", said(&output));
}
