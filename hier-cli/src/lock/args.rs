//! The arguments of the commands.

use std::path::PathBuf;

use clap::Args;

use crate::threads::DatabaseArgs;

/// The arguments that select the program.
#[derive(Args, Debug)]
pub struct ProgramArgs {
    /// Name of the package. Required if several packages of the workspace call `hier::testing::lock!`.
    #[arg(long, short, value_name = "NAME")]
    pub package: Option<String>,
    /// Name of the test file that calls `hier::testing::lock!`. Required if several test files call the macro.
    #[arg(long, value_name = "NAME")]
    pub test: Option<String>,
    /// Manifest of the package or workspace. Defaults to `Cargo.toml` in the current folder or a folder above it.
    #[arg(long, value_name = "PATH")]
    pub manifest_path: Option<PathBuf>,
}

/// The arguments of `hier lock`.
#[derive(Args, Debug)]
pub struct LockArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub program: ProgramArgs,
}

/// The arguments of `hier check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub program: ProgramArgs,
    /// Lock file of the deployed program, or `-` for the standard input. Defaults to `graph.lock` in the folder of the
    /// package.
    #[arg(long, value_name = "PATH")]
    pub lock: Option<PathBuf>,
    /// Database in which to count threads: a SQLite file (`PATH`, `sqlite:PATH`) or
    /// `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[arg(long, value_name = "PATH|URL")]
    pub db: Option<String>,
    /// Schema of the tables in a Postgres database.
    #[arg(long, default_value = "hier", value_name = "NAME", requires = "db")]
    pub schema: String,
    /// File with the key of an encrypted database, as 64 hexadecimal digits. Defaults to the key in the environment
    /// variable `HIER_KEY`.
    #[arg(long, value_name = "FILE", requires = "db")]
    pub key_file: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    pub json: bool,
}

impl CheckArgs {
    pub(super) fn database(&self) -> Option<DatabaseArgs> {
        let (schema, key_file) = (self.schema.clone(), self.key_file.clone());
        self.db.clone().map(|db| DatabaseArgs { db, schema, key_file, json: self.json })
    }
}
