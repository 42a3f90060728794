//! `tidegate init`: creates the folder of a service.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use ed25519_dalek::SigningKey;
use tidegate::kernel::VaultKey;
use tidegate_server::http::auth::Role;

use super::config::Config;
use super::{open, token};
use crate::failure::{Failure, complain};
use crate::output::Output;
use tidegate_release::files::sync_folder_of;
use tidegate_release::files::{hexadecimal, write_key, write_private};

/// The example configuration, from which every new one is made.
const EXAMPLE: &str = include_str!("service.toml");

/// First line of its section on tokens.
const TOKENS: &str = "# Who may speak to it.";
const STREAMS: &str = "# What is released.";

/// Make the folder of a new service: a configuration, keys, an empty store, and tokens.
///
/// The folder must be empty, or not there. In it are service.toml, which is commented and is meant to
/// be changed; operator.pub, the key that devices verify policies with; and state, with the keys, the
/// store and the high-water marks, which only their owner may read. Three tokens, one for each role,
/// are printed, once: the configuration has nothing but their hashes.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Example:\n  tidegate init /srv/tidegate\n  tidegate serve --config /srv/tidegate/service.toml"
)]
pub(crate) struct Init {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print the tokens, the operator's public key and the path of the configuration as JSON
    #[arg(long)]
    json: bool,
}

/// A new service.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) config: PathBuf,
    /// The operator's public key, which devices verify policies with.
    pub(crate) operator: String,
    /// The file with that key.
    pub(crate) public: PathBuf,
    /// One token for each role, in order.
    pub(crate) tokens: Vec<(Role, String)>,
}

impl Init {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let made = make(&self.folder)?;
        let config = made.config.display();
        let mut output = Output::create("-")?;
        if self.json {
            let tokens: serde_json::Map<_, _> =
                made.tokens.iter().map(|(role, token)| (role.name().to_owned(), token.clone().into())).collect();
            let line = serde_json::json!({
                "config": made.config, "operator_key": made.operator, "operator_key_file": made.public, "tokens": tokens
            });
            output.write(&format!("{line}\n"))?;
        } else {
            for (role, token) in &made.tokens {
                output.write(&format!("{:<9}{token}\n", role.name()))?;
            }
            complain(
                "tokens",
                "one for each role, above; they are not kept anywhere, so put them where they are needed",
            );
            let public = made.public.display();
            complain("operator", format_args!("devices are to trust the key {}, which is in {public}", made.operator));
            complain("next", format_args!("declare streams in {config}, then: tidegate serve --config {config}"));
        }
        output.finish()
    }
}

/// Creates the folder of a service.
pub(crate) fn make(folder: &Path) -> Result<Made, Failure> {
    let cannot = |error: io::Error| Failure::run(format_args!("{} cannot be made: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(cannot)?;
    if fs::read_dir(folder).map_err(cannot)?.next().is_some() {
        return Err(Failure::input(format_args!("{} is not empty", folder.display())));
    }
    let state = folder.join("state");
    private_folder(&state).map_err(cannot)?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(Failure::run)?;
    write_key(&state.join("operator.key"), &seed)?;
    let operator = hexadecimal(SigningKey::from_bytes(&seed).verifying_key().as_bytes());
    // Not secret: devices are given a copy.
    let public = folder.join("operator.pub");
    fs::write(&public, format!("{operator}\n")).map_err(cannot)?;
    write_key(&state.join("vault.key"), &VaultKey::new().map_err(Failure::run)?.to_bytes())?;
    let (mut tokens, mut lines) = (Vec::new(), String::new());
    for role in Role::ALL {
        let (made, entry) = token::make(role.name(), role)?;
        lines += &format!("{}\n", token::lines(&entry));
        tokens.push((role, made.secret.reveal().to_owned()));
    }
    let path = folder.join("service.toml");
    write_private(&path, &configuration(&lines))?;
    // The store and the marks exist from the start, so that a missing one is noticed later.
    let name = path.to_str().ok_or_else(|| Failure::input("the path is not valid UTF-8"))?;
    let config = Config::read_file(name)?;
    drop(open::tools(&config)?);
    sync_folder_of(&path).map_err(cannot)?;
    Ok(Made { config: path, operator, public, tokens })
}

/// Creates a folder that only its owner may read.
fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    sync_folder_of(path)
}

/// Returns the example with these tokens, and with its streams commented out.
fn configuration(tokens: &str) -> String {
    let (settings, rest) = EXAMPLE.split_once(TOKENS).unwrap_or((EXAMPLE, ""));
    let (comment, streams) = rest.split_once(STREAMS).unwrap_or(("", ""));
    let comment: String =
        comment.lines().take_while(|line| !line.starts_with('[')).map(|line| format!("{line}\n")).collect();
    // After the prose, every line gets a mark, also one that is a comment: without its mark, the example is as it was.
    let (prose, streams) = streams.split_once("[[").unwrap_or((streams, ""));
    let commented = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("# {line}\n") };
    let streams: String = format!("[[{streams}").lines().map(commented).collect();
    format!("{settings}{TOKENS}{comment}{tokens}{STREAMS}{prose}{streams}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_configuration_is_the_example_with_other_tokens_and_without_streams() {
        assert_eq!([TOKENS, STREAMS].map(|part| EXAMPLE.matches(part).count()), [1, 1]);
        let made = configuration("[[tokens]]\nname = \"x\"\n");
        let keys: Vec<&str> = made.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(keys, ["[[tokens]]", "name = \"x\""]);
        assert!(made.contains("# [[streams]]") && made.lines().count() > 60, "{made}");
        let (_, streams) = made.split_once("# [[streams]]").unwrap_or_default();
        let unmarked: String =
            streams.lines().map(|line| format!("{}\n", line.strip_prefix("# ").unwrap_or(line))).collect();
        assert!(EXAMPLE.ends_with(&unmarked), "{unmarked}");
    }
}
