//! The `tidegate` command.
//!
//! Results go to standard output, everything else to standard error. It exits with 0, with 1 where something failed, and with
//! 2 where what it was given is wrong.

mod channel;
mod data;
mod evaluate;
mod failure;
mod input;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod release;
mod spec;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Publishes statistics of live data streams under privacy guarantees that hold.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
struct Command {
    #[command(subcommand)]
    subcommand: Sub,
}

#[derive(Debug, Subcommand)]
enum Sub {
    Evaluate(Box<evaluate::Evaluate>),
    Data(data::Data),
    Channel(channel::Channel),
    Release(Box<release::Release>),
}

fn main() -> ExitCode {
    let result = match Command::parse().subcommand {
        Sub::Evaluate(evaluate) => evaluate.run(),
        Sub::Data(data) => data.run(),
        Sub::Channel(channel) => channel.run(),
        Sub::Release(release) => release.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
