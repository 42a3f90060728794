//! [`Listener`]: changes of streams, as the database tells of them.

use std::collections::HashSet;
use std::future::poll_fn;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, NoTls};

use super::super::row::StreamRow;
use super::super::row::stream_columns;
use super::super::{StoreError, StreamRecord};
use super::PostgresStore;
use super::fault::Fault;
use super::rows::questions_of;

/// Connection on which the database tells which streams have changed.
#[derive(Debug)]
pub struct Listener {
    runtime: Runtime,
    changes: UnboundedReceiver<String>,
    /// Dropped, it ends the connection.
    _client: tokio_postgres::Client,
}

impl Listener {
    /// Waits for changes, and returns the streams that have changed, each once; none where nothing changes in time.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the connection is lost: changes may have been missed.
    pub fn wait(&mut self, longest: Duration) -> Result<HashSet<String>, StoreError> {
        let Self { runtime, changes, .. } = self;
        let first = runtime.block_on(async { timeout(longest, changes.recv()).await });
        let Ok(first) = first else { return Ok(HashSet::new()) };
        let lost = || StoreError::Unavailable("listen: the connection was lost".to_owned());
        let mut names = HashSet::from([first.ok_or_else(lost)?]);
        while let Ok(name) = changes.try_recv() {
            names.insert(name);
        }
        Ok(names)
    }
}

/// Drives a connection, and hands on what it is notified of.
async fn drive<S, T>(mut connection: tokio_postgres::Connection<S, T>, changes: UnboundedSender<String>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message
            && changes.send(notification.payload().to_owned()).is_err()
        {
            return;
        }
    }
}

impl PostgresStore {
    /// Listens for changes of streams: of their declarations and status only, or of all that is shown of them.
    ///
    /// # Errors
    /// General errors.
    pub fn listen(&self, declared_only: bool) -> Result<Listener, StoreError> {
        let (config, tls, options) = self.pool.address();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::Failed(format!("no connection can be opened: {error}")))?;
        let (sender, changes) = unbounded_channel();
        let connecting = async {
            let client = match tls {
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    tokio::spawn(drive(connection, sender));
                    client
                }
                Some(tls) => {
                    let (client, connection) = config.connect(tls).await?;
                    tokio::spawn(drive(connection, sender));
                    client
                }
            };
            client.batch_execute("LISTEN tidegate_declared").await?;
            if !declared_only {
                client.batch_execute("LISTEN tidegate_advanced").await?;
            }
            Ok::<_, tokio_postgres::Error>(client)
        };
        let connected = runtime.block_on(async { timeout(options.patience, connecting).await });
        let client = connected.map_err(|_| Fault::Hangs).and_then(|client| Ok(client?));
        let client = client.map_err(|fault| fault.explain("listen", false))?;
        Ok(Listener { runtime, changes, _client: client })
    }

    /// Reads streams with their open questions, but without their states. Missing ones are left out.
    ///
    /// # Errors
    /// Only general errors.
    pub fn heads(&self, names: &[&str]) -> Result<Vec<StreamRecord>, StoreError> {
        self.read("heads", |connection| {
            let sql = concat!("SELECT ", stream_columns!(), " FROM tidegate.streams WHERE name = ANY($1)");
            let rows = connection.query(sql, &[&names])?;
            let rows: Vec<StreamRow> = rows.iter().map(StreamRow::read).collect::<Result<_, Fault>>()?;
            let questions = questions_of(connection, &rows)?;
            Ok(rows.into_iter().zip(questions).map(|(row, open)| row.into_record(Vec::new(), open)).collect())
        })
    }
}
