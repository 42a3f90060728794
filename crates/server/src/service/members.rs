//! Registry of the users of a stream with classes.

use tidegate::central::classes::Classes;
use tidegate::central::membership::Membership;

use super::{Service, ServiceError};
use crate::driver::next_timestamp;
use crate::ingest::members::ClassRequest;
use crate::store::{MAX_CHANGES, MemberChanges, MemberFilter, StoreError};

/// How often a change is tried again because the stream has advanced meanwhile.
const ATTEMPTS: u32 = 20;

/// Error of a change of classes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum MemberError {
    #[error("the users of this stream have no classes")]
    NoClasses,
    #[error("there is no user of that name")]
    NoUser,
    /// The class of a request is not declared.
    #[error("class: expected {classes}, or null to leave")]
    Class { position: usize, classes: String },
    /// The first `changed` requests were made.
    #[error("{error}")]
    Store { changed: usize, error: Box<ServiceError> },
}

fn failed(changed: usize, error: ServiceError) -> MemberError {
    MemberError::Store { changed, error: Box::new(error) }
}

/// Class of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserClass {
    /// Class that the user wants; `None` for one who has left.
    pub class: Option<String>,
    /// First timestamp at which the user counts in it.
    pub from: Option<u64>,
}

impl Service {
    /// Records the classes that users want. They are durable when this returns, and a repetition changes nothing.
    /// Returns the first timestamp to which they apply. Blocks.
    ///
    /// # Errors
    /// [`MemberError`]. After an error of the store, send the rest again.
    pub fn change_classes(&self, stream: &str, requests: Vec<ClassRequest>) -> Result<u64, MemberError> {
        let classes = self.classes_of(stream)?;
        let number = |(position, ClassRequest { user, class }): (usize, ClassRequest)| {
            let number = match &class {
                None => None,
                Some(class) => Some(classes.find(class).ok_or_else(|| MemberError::Class {
                    position,
                    classes: classes.all().iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", "),
                })?),
            };
            Ok((user, number))
        };
        let lateness = self.overview(stream).map_or(0, |overview| overview.declaration.lateness);
        let requests = requests.into_iter().enumerate().map(number).collect::<Result<Vec<_>, _>>()?;
        let (mut changed, mut next) = (0, 0);
        for chunk in requests.chunks(MAX_CHANGES) {
            next = self.change_some(stream, &classes, lateness, chunk).map_err(|error| failed(changed, error))?;
            changed += chunk.len();
        }
        Ok(next)
    }

    /// Makes changes in one transaction. It is refused where a tick begins meanwhile, and then tried again.
    fn change_some(
        &self,
        stream: &str,
        classes: &Classes,
        lateness: u64,
        requests: &[(String, Option<u16>)],
    ) -> Result<u64, ServiceError> {
        for _ in 0..ATTEMPTS {
            let found = self.tools.store.stream(stream)?;
            let next = next_timestamp(&found)?;
            let changes = MemberChanges { version: found.version, next, lateness, classes, requests };
            match self.tools.store.change_members(stream, &changes) {
                Err(StoreError::Stale(_)) => {}
                done => return Ok(done.map(|()| next)?),
            }
        }
        Err(StoreError::Unavailable(format!("stream {stream} advances too fast to change its registry")).into())
    }

    /// Returns the class of a user. Blocks.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn class_of(&self, stream: &str, user: &str) -> Result<UserClass, MemberError> {
        let classes = self.classes_of(stream)?;
        let found = self.tools.store.members(stream, MemberFilter::User(user));
        let found = found.map_err(|error| failed(0, error.into()))?;
        let member = found.members.first().ok_or(MemberError::NoUser)?;
        let wanted = Membership::wanted(&member.membership);
        let name = |class: u16| classes.all().get(usize::from(class)).map(|class| class.name.clone());
        Ok(UserClass { class: wanted.and_then(|(class, _)| name(class)), from: wanted.map(|(_, from)| from) })
    }

    fn classes_of(&self, stream: &str) -> Result<Classes, MemberError> {
        let fail = |error| failed(0, error);
        let overview = self.overview(stream).ok_or_else(|| fail(ServiceError::NoStream(stream.to_owned())))?;
        overview.declaration.classes().map_err(|error| fail(error.into()))?.ok_or(MemberError::NoClasses)
    }
}
