//! Creation of streams, and changes of those that exist: queries, monitors, webhooks, retention and status.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::agenda::GROUP;
use super::handle::{StreamHandle, declaration_of};
use super::{Service, ServiceError};
use crate::driver::{DriveError, first_state};
use crate::ingest::issuing::Issuing;
use crate::store::{NewStream, Status, StoreError, Write, Written};
use crate::stream::{Declaration, DeclarationError};

/// How often a declaration is compared and replaced, while others replace it too.
const ATTEMPTS: u32 = 3;

impl Service {
    /// Creates a stream. If it exists and promises the same, replaces its queries, monitors, webhooks and retention.
    /// Blocks.
    ///
    /// # Errors
    /// An invalid declaration, or one that changes what the stream promises.
    pub fn create(&self, declaration: &Declaration) -> Result<(), ServiceError> {
        self.create_if(declaration, None)
    }

    /// As [`create`](Self::create), if the declaration that exists has this [tag](declaration_tag). Blocks.
    ///
    /// # Errors
    /// As there, and [`StoreError::Changed`] where there is another declaration by now, or none.
    pub fn create_if(&self, declaration: &Declaration, tag: Option<&str>) -> Result<(), ServiceError> {
        if let Some(tag) = tag {
            declaration.check()?;
            self.replace(declaration, Some(tag))?;
        } else {
            self.record(std::slice::from_ref(declaration))?;
        }
        self.start_stream(&declaration.name)
    }

    /// Creates a stream of a name that was never used. Blocks.
    ///
    /// # Errors
    /// An invalid declaration, and [`StoreError::Exists`].
    pub fn create_new(&self, declaration: &Declaration) -> Result<(), ServiceError> {
        let row = self.first_row(declaration)?;
        for outcome in self.tools.store.commit(&[Write::Create(row.as_new())]) {
            outcome?;
        }
        self.start_stream(&declaration.name)
    }

    /// Stores declarations: new streams, or other queries, monitors, webhooks and retention of those that exist.
    pub(super) fn record(&self, declarations: &[Declaration]) -> Result<(), ServiceError> {
        for group in declarations.chunks(GROUP) {
            let rows: Vec<_> = group.iter().map(|declaration| self.first_row(declaration)).collect::<Result<_, _>>()?;
            let writes: Vec<_> = rows.iter().map(|row| Write::Create(row.as_new())).collect();
            for (declaration, outcome) in group.iter().zip(self.tools.store.commit(&writes)) {
                self.settle(declaration, outcome)?;
            }
        }
        Ok(())
    }

    fn first_row(&self, declaration: &Declaration) -> Result<FirstRow, ServiceError> {
        declaration.check()?;
        if self.membership.is_some() {
            check_for_cluster(declaration)?;
        }
        let name = declaration.name.clone();
        let text = to_json(&name, declaration)?;
        let mut slot_key = [0; 16];
        getrandom::fill(&mut slot_key).map_err(|error| ServiceError::Entropy(error.into()))?;
        let policy = match declaration.policy(slot_key)? {
            Some(mut policy) => {
                policy.issuer = Issuing::new(declaration, self.signer.as_bytes()).map(|own| own.issuer().public());
                to_json(&name, &policy.sign(&self.signer)?)?
            }
            None => String::new(),
        };
        let state = first_state(declaration, 0, self.tools.key.as_deref())?;
        Ok(FirstRow { name, declaration: text, policy, state })
    }

    /// Replaces the declaration of a stream that exists already.
    fn settle(&self, declaration: &Declaration, outcome: Result<Written, StoreError>) -> Result<(), ServiceError> {
        match outcome {
            Ok(_) => {}
            // After an unknown outcome, the store tells what happened.
            Err(StoreError::Exists(_) | StoreError::Unknown(_)) => self.replace(declaration, None)?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Replaces the declaration of a stream, if it has this tag.
    fn replace(&self, declaration: &Declaration, tag: Option<&str>) -> Result<(), ServiceError> {
        let name = &declaration.name;
        let mut attempts = 0;
        loop {
            let found = match self.tools.store.stream(name) {
                Err(StoreError::NoStream(_)) if tag.is_some() => return Err(StoreError::Changed(name.clone()).into()),
                found => found?,
            };
            let earlier = declaration_of(&found)?;
            if tag.is_some_and(|tag| tag != declaration_tag(&earlier)) {
                return Err(StoreError::Changed(name.clone()).into());
            }
            declaration.follows(&earlier)?;
            // A stream that is live stays so.
            let backfill = declaration.backfill && earlier.backfill;
            let declaration = &Declaration { backfill, ..declaration.clone() };
            if *declaration == earlier {
                return Ok(());
            }
            let redeclared = self.tools.store.redeclare(name, &found.declaration, &to_json(name, declaration)?);
            attempts += 1;
            if matches!(redeclared, Err(StoreError::Changed(_))) && tag.is_none() && attempts < ATTEMPTS {
                continue;
            }
            // Even after an error, the driver reads what the store has.
            if let Some(handle) = self.handle(name) {
                handle.reopen();
                self.agenda.wake(name);
            }
            return Ok(redeclared?);
        }
    }

    /// Reads the declaration of a stream from the store, where it may be newer than in memory. Blocks.
    ///
    /// # Errors
    /// An unknown stream, or errors of the store.
    pub fn declaration(&self, stream: &str) -> Result<Declaration, ServiceError> {
        Ok(declaration_of(&self.tools.store.stream(stream)?)?)
    }

    /// Sets the status of a stream. Blocks.
    ///
    /// # Errors
    /// An unknown or retired stream.
    pub fn set_status(&self, stream: &str, status: Status) -> Result<(), ServiceError> {
        let handle = self.handle(stream).ok_or_else(|| ServiceError::NoStream(stream.to_owned()))?;
        self.tools.store.set_status(stream, status)?;
        if status == Status::Running {
            self.go_live(stream, &handle)?;
        }
        handle.update(|view| {
            view.status_changes += 1;
            std::mem::replace(&mut view.status, status) != status
        });
        self.agenda.wake(stream);
        Ok(())
    }

    /// Ends the history of a stream that was declared with `backfill`.
    fn go_live(&self, stream: &str, handle: &StreamHandle) -> Result<(), ServiceError> {
        let found = self.tools.store.stream(stream)?;
        let earlier = declaration_of(&found)?;
        if earlier.backfill {
            let live = Declaration { backfill: false, ..earlier };
            self.tools.store.redeclare(stream, &found.declaration, &to_json(stream, &live)?)?;
            handle.reopen();
        }
        Ok(())
    }
}

/// Refuses streams that a cluster does not run: events of a curator never leave the memory of one process, and neither
/// does who has drawn tokens.
pub(super) fn check_for_cluster(declaration: &Declaration) -> Result<(), DeclarationError> {
    if declaration.is_curated() {
        return Err(DeclarationError::CuratorOfCluster);
    }
    if declaration.credentials {
        return Err(DeclarationError::CredentialsOfCluster);
    }
    Ok(())
}

/// Returns a tag of a declaration, which is another one for each declaration.
pub fn declaration_tag(declaration: &Declaration) -> String {
    // A declaration was read from JSON, so it can be written.
    let text = serde_json::to_vec(declaration).unwrap_or_default();
    hex::encode(&Sha256::digest(text)[..16])
}

/// First row of a stream, as [`NewStream`].
struct FirstRow {
    name: String,
    declaration: String,
    policy: String,
    state: Vec<u8>,
}

impl FirstRow {
    fn as_new(&self) -> NewStream<'_> {
        NewStream { name: &self.name, declaration: &self.declaration, policy: &self.policy, state: &self.state }
    }
}

fn to_json(stream: &str, value: &impl Serialize) -> Result<String, DriveError> {
    serde_json::to_string(value)
        .map_err(|error| DriveError::State { stream: stream.to_owned(), problem: error.to_string() })
}
