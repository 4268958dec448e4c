//! Programs that must compile: the nearest one for each program that must not. Each is run, too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A module and a test for each program.
macro_rules! programs {
    ($($name:ident: $path:literal),+ $(,)?) => {
        $(
            #[allow(dead_code, unreachable_pub, clippy::all, clippy::pedantic)]
            mod $name {
                include!($path);

                #[test]
                fn compiles_and_runs() {
                    main();
                }
            }
        )+

        const PROGRAMS: &[&str] = &[$($path),+];
    };
}

include!("programs.rs");

#[test]
fn each_program_in_the_folders_is_listed_here() {
    let listed: BTreeSet<PathBuf> = PROGRAMS.iter().map(PathBuf::from).collect();
    let mut found = BTreeSet::new();
    look_in(Path::new(""), &mut found);
    assert_eq!(found, listed);
}

fn look_in(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in root.join(folder).read_dir().expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, name) = (folder.join(entry.file_name()), entry.file_name().into_string().expect("a name"));
        if entry.file_type().expect("a type").is_dir() {
            look_in(&path, found);
        } else if name.starts_with("ok_") && path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path);
        }
    }
}
