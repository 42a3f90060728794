//! `tidegate token`: creates a token.

use clap::Args;
use tidegate_server::http::auth::{ApiToken, Role, TokenEntry, Tokens};

use crate::failure::{Failure, complain};
use crate::output::Output;

/// Make a token by which somebody may speak to a service.
///
/// The token goes to standard output, once: nobody can find it out again. What the service's
/// configuration needs to know of it, a hash, goes to standard error, or with --json to standard
/// output as well. An operator may do everything; ingest sends reports and events; an analyst reads
/// what was published.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = "Example:\n  tidegate token --role ingest --name gateway > gateway.token")]
pub(crate) struct NewToken {
    /// What its holder may do
    #[arg(long, value_parser = role)]
    role: Role,

    /// What logs call its holder
    #[arg(long)]
    name: String,

    /// Print token, name, role and hash as JSON
    #[arg(long)]
    json: bool,
}

/// Parses the name of a role.
pub(crate) fn role(text: &str) -> Result<Role, String> {
    let names = Role::ALL.map(Role::name);
    let found = Role::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("expected one of: {}", names.join(", ")))
}

/// Creates a token and its configuration entry.
pub(crate) fn make(name: &str, role: Role) -> Result<(ApiToken, TokenEntry), Failure> {
    let token = ApiToken::new(role).map_err(Failure::run)?;
    let entry = TokenEntry { name: name.to_owned(), role, sha256: token.sha256.clone() };
    Tokens::new(vec![entry.clone()]).map_err(Failure::input)?;
    Ok((token, entry))
}

/// Formats an entry as lines of a configuration.
pub(crate) fn lines(entry: &TokenEntry) -> String {
    let TokenEntry { name, role, sha256 } = entry;
    format!("[[tokens]]\nname = \"{name}\"\nrole = \"{role}\"\nsha256 = \"{sha256}\"\n")
}

impl NewToken {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (token, entry) = make(&self.name, self.role)?;
        let mut output = Output::create("-")?;
        if self.json {
            let line = serde_json::json!({
                "token": token.secret.reveal(), "name": entry.name, "role": entry.role, "sha256": entry.sha256,
            });
            output.write(&format!("{line}\n"))?;
        } else {
            complain("add to the configuration", format_args!("\n{}", lines(&entry)));
            output.write(&format!("{}\n", token.secret.reveal()))?;
        }
        output.finish()
    }
}
