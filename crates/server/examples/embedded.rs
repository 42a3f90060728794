//! A service inside another program: a store, three streams, tokens, and HTTP on loopback.
//!
//! `cargo run -p tidegate-server --example embedded -- FOLDER` keeps its store in a folder, prints its address and
//! tokens as JSON, and serves until SIGTERM or SIGINT.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use serde_json::json;
use tidegate::kernel::VaultKey;
use tidegate_device::clock::BootClock;
use tidegate_server::driver::Tools;
use tidegate_server::http::auth::{ApiToken, Role, TokenEntry, Tokens};
use tidegate_server::http::{
    HttpSettings, LogFormat, Telemetry, WebhookSettings, log_to_stderr, serve, shutdown_signal,
};
use tidegate_server::service::{Service, ServiceSettings};
use tidegate_server::store::{Marks, SqliteStore};
use tidegate_server::stream::Declaration;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    log_to_stderr(LogFormat::Text, "warn")?;
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("expected a folder")?.into();
    let store = Arc::new(SqliteStore::open(&folder.join("store"))?);
    let marks = Arc::new(Marks::open(&folder.join("marks"), &*store)?);
    // These keys end with the process, and so do readings that wait, and policies. `tidegate init` makes lasting keys.
    let key = Some(Arc::new(VaultKey::new()?));
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let telemetry = Telemetry::new(WebhookSettings::default())?;
    let tools = Tools { store, marks, key, holder: "embedded".to_owned(), lease: 10_000 };
    let settings = ServiceSettings { queue: 1_024, signer: SigningKey::from_bytes(&seed), clock: BootClock::new()? };
    let streams = [
        json!({ "name": "visits", "tick": 1, "spec": {
            "family": "local", "mechanism": "lpa", "epsilon": 1, "window": 5, "domain": ["home", "out"],
            "population": 1_000,
            "queries": [{ "name": "out", "value": "out" }],
        } }),
        json!({ "name": "rooms", "tick": 1, "spec": {
            "family": "central", "mechanism": "ba", "epsilon": 1, "window": 5, "domain": 4,
        } }),
        json!({ "name": "load", "tick": 1, "spec": {
            "family": "scalar", "mechanism": "laplace", "epsilon": 1,
            "domain": { "low": 0, "high": 100 }, "protects": "reading", "outside": "clamp",
        } }),
    ];
    let streams = streams.into_iter().map(serde_json::from_value).collect::<Result<Vec<Declaration>, _>>()?;
    let service = Service::start(tools, settings, &streams, telemetry.clone())?;
    let (mut entries, mut secrets) = (Vec::new(), serde_json::Map::new());
    for role in Role::ALL {
        let ApiToken { secret, sha256 } = ApiToken::new(role)?;
        entries.push(TokenEntry { name: role.name().to_owned(), role, sha256 });
        secrets.insert(role.name().to_owned(), secret.reveal().into());
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("{}", json!({ "url": url, "tokens": secrets }));
    let settings = HttpSettings { tokens: Tokens::new(entries)?, ..HttpSettings::default() };
    Ok(serve(service, telemetry, listener, settings, shutdown_signal()).await?)
}
