//! The `tidegate` command.
//!
//! Results go to standard output, everything else to standard error. The exit code is 0 on success, 1 on failure, and 2
//! for invalid input.
//!
//! Without the feature `lab`, the subcommands that simulate are absent: `new`, `evaluate`, `advise`, `audit`,
//! `reproduce`, `accuracy`, `data`, `demo` and `device fleet`.

#[cfg(feature = "lab")]
mod accuracy;
#[cfg(feature = "lab")]
mod advise;
mod arguments;
#[cfg(feature = "lab")]
mod audit;
mod budget;
mod canvas;
mod channel;
#[cfg(feature = "lab")]
mod chart;
mod columns;
mod completions;
#[cfg(feature = "lab")]
mod data;
#[cfg(feature = "lab")]
mod demo;
mod device;
#[cfg(feature = "lab")]
mod evaluate;
mod failure;
mod input;
mod model;
#[cfg(feature = "lab")]
mod new;
mod output;
mod plot;
mod query;
mod release;
#[cfg(feature = "lab")]
mod reproduce;
mod service;
mod stream;
mod table;
mod warnings;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Publishes statistics of live data streams under privacy guarantees that hold.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
struct Command {
    #[command(subcommand)]
    subcommand: Sub,
}

#[derive(Debug, Subcommand)]
enum Sub {
    #[cfg(feature = "lab")]
    New(Box<new::New>),
    Release(Box<release::Release>),
    Budget(budget::ShowBudget),
    Plot(plot::Plot),
    #[cfg(feature = "lab")]
    Evaluate(Box<evaluate::Evaluate>),
    #[cfg(feature = "lab")]
    Advise(Box<advise::Advise>),
    #[cfg(feature = "lab")]
    Audit(Box<audit::Audit>),
    #[cfg(feature = "lab")]
    Reproduce(reproduce::Reproduce),
    #[cfg(feature = "lab")]
    Accuracy(accuracy::Accuracy),
    Channel(channel::Channel),
    Model(model::ModelCommand),
    #[cfg(feature = "lab")]
    Data(data::Data),
    Init(service::init::Init),
    Serve(service::serve::Serve),
    #[cfg(feature = "cluster")]
    Gateway(service::roles::Gateway),
    #[cfg(feature = "cluster")]
    Worker(service::roles::Worker),
    #[cfg(feature = "cluster")]
    Driver(service::roles::Driver),
    Token(service::token::NewToken),
    Doctor(service::doctor::Doctor),
    Backup(service::backup::Backup),
    Restore(service::backup::Restore),
    Stream(stream::Streams),
    Query(Box<query::Query>),
    Device(Box<device::Device>),
    #[cfg(feature = "lab")]
    Demo(demo::Demo),
    Completions(completions::Completions),
    Manual(completions::Manual),
}

fn main() -> ExitCode {
    let result = match Command::parse().subcommand {
        #[cfg(feature = "lab")]
        Sub::New(new) => new.run(),
        #[cfg(feature = "lab")]
        Sub::Evaluate(evaluate) => evaluate.run(),
        #[cfg(feature = "lab")]
        Sub::Data(data) => data.run(),
        Sub::Channel(channel) => channel.run(),
        Sub::Model(model) => model.run(),
        Sub::Release(release) => release.run(),
        Sub::Budget(budget) => budget.run(),
        Sub::Plot(plot) => plot.run(),
        Sub::Completions(completions) => completions.run(Command::command()),
        Sub::Manual(manual) => manual.run(Command::command()),
        #[cfg(feature = "lab")]
        Sub::Reproduce(reproduce) => reproduce.run(),
        #[cfg(feature = "lab")]
        Sub::Accuracy(accuracy) => accuracy.run(),
        #[cfg(feature = "lab")]
        Sub::Advise(advise) => advise.run(),
        Sub::Init(init) => init.run(),
        Sub::Serve(serve) => serve.run(),
        #[cfg(feature = "cluster")]
        Sub::Gateway(gateway) => gateway.run(),
        #[cfg(feature = "cluster")]
        Sub::Worker(worker) => worker.run(),
        #[cfg(feature = "cluster")]
        Sub::Driver(driver) => driver.run(),
        Sub::Token(token) => token.run(),
        Sub::Doctor(doctor) => doctor.run(),
        Sub::Backup(backup) => backup.run(),
        Sub::Restore(restore) => restore.run(),
        Sub::Stream(stream) => stream.run(),
        Sub::Query(query) => query.run(),
        Sub::Device(device) => device.run(),
        #[cfg(feature = "lab")]
        Sub::Demo(demo) => demo.run(),
        #[cfg(feature = "lab")]
        Sub::Audit(audit) => audit.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
