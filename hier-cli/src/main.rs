//! The program `hier`.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hier_cli::{graph, lock, new, schema, studio, threads};

/// Creates projects, draws graphs, and inspects or repairs stored threads.
#[derive(Parser)]
#[command(name = "hier", version)]
struct CliArguments {
    /// Colors of the output.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Clone, Copy, ValueEnum)]
enum Color {
    /// Uses colors on a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always uses colors.
    Always,
    /// Never uses colors.
    Never,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Creates a project.
    New(new::NewArgs),
    /// Draws the graphs that a program declares.
    Graph(graph::GraphArgs),
    /// Prints the JSON Schemas of a graph on a running server: input, state, output, questions and answers.
    Schema(schema::SchemaArgs),
    /// Writes `graph.lock`, a description of the program's graphs with which `hier check` compares new versions.
    Lock(lock::LockArgs),
    /// Reports changes of the program that break stored threads. With `--db`, also counts the threads that break.
    Check(lock::CheckArgs),
    #[command(flatten)]
    Threads(threads::ThreadCommand),
    /// Serves the studio for a database, without the program. The studio can read, copy and prune threads, but not run
    /// them.
    Studio(studio::StudioArgs),
    /// Prints completions for a shell: `hier completions bash > ~/.local/share/bash-completion/completions/hier`.
    Completions(Completions),
}

#[derive(Args)]
struct Completions {
    /// Name of the shell.
    shell: Shell,
}

fn main() -> ExitCode {
    let CliArguments { color, command } = CliArguments::parse();
    let choice = match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
    // The output is not locked, because `hier studio` prints its address to it meanwhile.
    let mut out = anstream::stdout();
    match command {
        CliCommand::New(arguments) => match new::create_project(&arguments, &mut out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(new::NewProjectError::Output(error)) => cannot_write(&error),
            Err(error) => failed(&error, 2),
        },
        CliCommand::Graph(arguments) => match graph::print_graph(&arguments, &mut out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(graph::DrawError::Write(error)) => cannot_write(&error),
            Err(error) => failed(&error, 2),
        },
        CliCommand::Schema(arguments) => match schema::print_schema(&arguments, &mut out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(schema::SchemaError::Write(error)) => cannot_write(&error),
            Err(error) => failed(&error, 2),
        },
        CliCommand::Lock(arguments) => lock_code(lock::write_lock(&arguments, &mut out).map(|()| true)),
        CliCommand::Check(arguments) => lock_code(lock::check_program(&arguments, &mut out)),
        CliCommand::Threads(command) => exit_code(threads::run_command(&command, &mut out)),
        CliCommand::Studio(arguments) => exit_code(studio::serve_studio(&arguments, &mut out)),
        CliCommand::Completions(Completions { shell }) => {
            // The generator panics if it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CliArguments::command(), "hier", &mut script);
            out.write_all(&script).map_or_else(|error| cannot_write(&error), |()| ExitCode::SUCCESS)
        }
    }
}

fn exit_code(result: Result<(), threads::ThreadsError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(threads::ThreadsError::Write(error)) => cannot_write(&error),
        Err(error) => failed(&error, if error.is_nothing_found() { 1 } else { 2 }),
    }
}

/// Returns 0 if no thread breaks, 1 if threads break, and 2 for errors.
fn lock_code(result: Result<bool, lock::LockCommandError>) -> ExitCode {
    match result {
        Ok(passes) => ExitCode::from(u8::from(!passes)),
        Err(lock::LockCommandError::Write(error)) => cannot_write(&error),
        Err(error) => failed(&error, 2),
    }
}

fn failed(error: &dyn Display, code: u8) -> ExitCode {
    let label = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let error = threads::safe_lines(&error.to_string());
    anstream::eprintln!("{label}error:{label:#} {error}");
    ExitCode::from(code)
}

/// Prints an error. Prints nothing if the reader of the output has closed it, as in `hier … | head`.
fn cannot_write(error: &io::Error) -> ExitCode {
    if error.kind() != io::ErrorKind::BrokenPipe {
        failed(&format_args!("cannot write the output: {error}"), 2);
    }
    ExitCode::from(2)
}
