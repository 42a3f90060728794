//! `tidegate completions` and `tidegate manual`: shell completions and manual pages.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::output::Output;

/// Print a script by which a shell completes the command's words.
///
/// Where it belongs depends on the shell. For one session of bash: source <(tidegate completions bash)
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate\n  \
                  tidegate completions zsh > ~/.zfunc/_tidegate\n  \
                  tidegate completions fish > ~/.config/fish/completions/tidegate.fish"
)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, mut command: Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "tidegate", &mut script);
        print(&script)
    }
}

/// Print the manual page of the command or of a subcommand, for man.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate manual evaluate | man -l -")]
pub(crate) struct Manual {
    /// The subcommand; the command itself unless given
    subcommand: Option<String>,
}

impl Manual {
    pub(crate) fn run(&self, mut command: Command) -> Result<(), Failure> {
        command.build();
        let page = match &self.subcommand {
            None => command,
            Some(name) => {
                let found = command.get_subcommands().find(|subcommand| subcommand.get_name() == name);
                found.cloned().ok_or_else(|| {
                    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
                    Failure::input(format_args!("there is no subcommand {name:?}; there are: {}", names.join(", ")))
                })?
            }
        };
        let mut text = Vec::new();
        clap_mangen::Man::new(page).render(&mut text).map_err(Failure::run)?;
        print(&text)
    }
}

fn print(text: &[u8]) -> Result<(), Failure> {
    let mut output = Output::create("-")?;
    output.write_bytes(text)?;
    output.finish()
}
