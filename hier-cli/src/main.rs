//! The `hier` command.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hier_cli::{graph, new, studio, threads};

/// Works with state graphs.
#[derive(Parser)]
#[command(name = "hier", version, about)]
struct Arguments {
    /// When to use colors.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Subcommand)]
enum Command {
    /// Makes a project that runs.
    New(new::New),
    /// Draws the graphs that a program declares.
    Graph(graph::Graph),
    #[command(flatten)]
    Threads(threads::Command),
    /// Opens the studio on a database alone, without the program: threads are shown, copied and pruned, and nothing runs.
    Studio(studio::Studio),
    /// Prints the completions for a shell: `hier completions bash > ~/.local/share/bash-completion/completions/hier`.
    Completions(Completions),
}

#[derive(Args)]
struct Completions {
    /// The shell.
    shell: Shell,
}

fn main() -> ExitCode {
    let Arguments { color, command } = Arguments::parse();
    let choice = match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
    // Not locked: what is printed while a command waits must not wait for it.
    let mut out = anstream::stdout();
    match command {
        Command::New(arguments) => {
            new::run(&arguments, &mut out).map_or_else(|error| failed(&error, 2), |()| ExitCode::SUCCESS)
        }
        Command::Graph(arguments) => match graph::run(&arguments, &mut out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(graph::Error::Write(error)) => cannot_write(&error),
            Err(error) => failed(&error, 2),
        },
        Command::Threads(command) => ended(threads::run(&command, &mut out)),
        Command::Studio(arguments) => ended(studio::run(&arguments)),
        Command::Completions(Completions { shell }) => {
            clap_complete::generate(shell, &mut Arguments::command(), "hier", &mut out);
            ExitCode::SUCCESS
        }
    }
}

fn ended(result: Result<(), threads::Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(threads::Error::Write(error)) => cannot_write(&error),
        Err(error) => failed(&error, if error.is_nothing_found() { 1 } else { 2 }),
    }
}

/// Says what went wrong.
fn failed(error: &dyn Display, code: u8) -> ExitCode {
    let label = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    anstream::eprintln!("{label}error:{label:#} {error}");
    ExitCode::from(code)
}

/// The reader of the lines may go away when it has seen enough (`hier … | head`).
fn cannot_write(error: &io::Error) -> ExitCode {
    if error.kind() != io::ErrorKind::BrokenPipe {
        failed(&format_args!("the report could not be written: {error}"), 2);
    }
    ExitCode::from(2)
}
