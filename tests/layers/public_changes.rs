//! Says what has gone from the public API, or changed in it, since another version: `scripts/semver.sh`.

use std::path::Path;
use std::process::ExitCode;

use hier_layers::changes::breaks;

fn main() -> ExitCode {
    let folders: Vec<_> = std::env::args_os().skip(1).collect();
    let [old, new] = &folders[..] else {
        eprintln!("usage: public-changes OLD NEW, folders with the JSON that rustdoc wrote: scripts/semver.sh");
        return ExitCode::from(2);
    };
    match compare(Path::new(old), Path::new(new)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::from(2)
        }
    }
}

/// Prints and counts the breaking changes in all crates of the older version.
fn compare(old: &Path, new: &Path) -> Result<usize, String> {
    let mut broken = 0;
    let files = old.read_dir().map_err(|error| format!("{}: {error}", old.display()))?;
    let names = files.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut names: Vec<_> = names.filter(|name| Path::new(name).extension().is_some_and(|it| it == "json")).collect();
    names.sort();
    for name in names {
        let read = |folder: &Path| {
            let file = folder.join(&name);
            std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
        };
        let lines = breaks(&read(old)?, &read(new)?)?;
        broken += lines.len();
        for line in lines {
            println!("{line}");
        }
    }
    println!("{broken} changes that break programs");
    Ok(broken)
}
