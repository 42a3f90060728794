//! Requirement classes: the guarantees that an operator offers, and the class of each user.
//!
//! [`Classes`] are declared once, for example privacy `high`, `medium` or `low` for a window that is `small`, `medium`
//! or `large`. A [`Registry`] records the class of each user. Users choose, change, leave and return at any time; their
//! class and its start are public.
//!
//! # The guarantee of users who move
//! A user counts at a timestamp in one class or in none. While the user is in class `a`, what is spent on the user is
//! part of what the ledger of `a` records, so a window of `w_a` timestamps spends at most `epsilon_a`, however long the
//! user has been there: a user who joins, or leaves and comes back to the same class, may count at once.
//!
//! A user who last counted in `a`, at timestamp `t`, and moves to `b` sits out, in no class, and counts in `b` from
//! timestamp `t + max(w_a, w_b)` on. Until then the promise of `a` stands, and from then on that of `b`.
//!
//! *Proof.* Let a window of `w_a` or of `w_b` timestamps contain one at which the user counted in `a` and one at which
//! the user counted in `b`. The first is at most `t`, the second at least `t + max(w_a, w_b)`, so the window is longer
//! than `max(w_a, w_b)`, a contradiction. Hence whatever window of the old or the new length is taken, all that it
//! spends on the user is recorded in one ledger, which keeps it within that class's epsilon if the window is of that
//! class's length. By induction over the moves the same holds for a user who moves again: between counting in `a` and
//! in a later class there lies at least the distance of the first move. A class that the user asked for but left before
//! counting in it has spent nothing on the user. ∎
//!
//! A user who returns after leaving counts as one who moves. The last class of a user is remembered for the longest
//! window, so leaving and [rejoining](Registry::rejoin) resets nothing.
//!
//! **One person has one number for ever.** The caller guarantees that. To the registry, a second number is a second
//! person, and someone with two numbers loses the sum of both.
//!
//! # Saving, losing, redeclaring
//! Save the registry together with the mechanism, before a release becomes visible. One that goes on from an older save
//! has forgotten who counted where since: call [`Registry::restored`], which leaves out as many timestamps as the
//! longest window has. The same holds for the mechanism: handed no timestamp in between, nothing of what it forgot lies
//! in a window with anything new. To declare other classes, leave everyone out for the longest window of the old and
//! the new ones in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tidegate_kernel::primitives::{ClassHistograms, HistogramError, seal_class_histograms};
use tidegate_kernel::{Account, ClassLedgers, Epsilon, Ledger, Sealed, Window};

use super::{CentralError, check_cells, check_domain};

/// Guarantee of a class: at most `epsilon` in any `window` consecutive timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Budget of a member in any window.
    pub epsilon: Epsilon,
    /// Length of the window.
    pub window: NonZeroU64,
}

/// A class of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Name.
    pub name: String,
    /// Guarantee of its members.
    pub requirement: Requirement,
}

/// Classes on offer, numbered from zero.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::central::classes::Classes;
///
/// let hour = NonZeroU64::new(60).ok_or("a window has a length")?;
/// let day = NonZeroU64::new(1440).ok_or("a window has a length")?;
/// let privacy = [("high", "0.1".parse()?), ("low", "0.9".parse()?)];
/// let classes = Classes::levels(&privacy, &[("small", hour), ("large", day)])?;
/// assert_eq!(classes.len(), 4);
/// let chosen = classes.find("high/large").ok_or("it was declared")?;
/// assert_eq!(classes.all()[usize::from(chosen)].requirement.window, day);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Class>", into = "Vec<Class>")]
pub struct Classes(Vec<Class>);

/// Maximum number of classes.
pub const MAX_CLASSES: usize = u16::MAX as usize;

/// Error of a declaration or a choice.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClassError {
    #[error("{given} classes are outside 1..={MAX_CLASSES}")]
    Number { given: usize },
    #[error("two classes are called {name:?}")]
    Repeated { name: String },
    #[error("class {class} is not one of 0..{classes}")]
    Unknown { class: u16, classes: usize },
    #[error("user {user} was never registered")]
    NoSuchUser { user: u32 },
    #[error("user {user} has left; call rejoin with the same number")]
    HasLeft { user: u32 },
    #[error("user {user} is registered already; change the class instead")]
    IsThere { user: u32 },
    #[error("no more users can be registered")]
    Full,
    #[error("timestamp {given} is not after {last}, the last one begun")]
    Time { given: u64, last: u64 },
    #[error("timestamp {given} is not the one that has begun; begin it before sealing its values")]
    NotBegun { given: u64 },
    #[error("the value at position {position} is a second one of the same user")]
    SecondValue { position: usize },
    #[error("the value at position {position} is of a user who was never registered")]
    UnknownUser { position: usize },
    /// Values that cannot be counted.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
}

impl Classes {
    /// Checks that histograms of all classes over a domain fit into memory.
    pub(super) fn check_domain(&self, domain: u32) -> Result<(), CentralError> {
        check_domain(domain)?;
        let cells = u32::try_from(self.len()).ok().and_then(|classes| domain.checked_mul(classes));
        check_domain(cells.unwrap_or(u32::MAX)).map_err(|_| CentralError::Domain { given: domain })
    }

    /// Checks that data match these classes, a domain and the numbers of members.
    pub(super) fn check_data(
        &self,
        histograms: &Sealed<ClassHistograms>,
        members: &[u64],
        domain: u32,
    ) -> Result<(), CentralError> {
        check_cells(histograms.domain(), domain)?;
        let expected = self.len();
        if !histograms.classes().eq(self.numbers()) {
            return Err(CentralError::Classes { given: histograms.classes().len(), expected });
        }
        if members.len() != expected {
            return Err(CentralError::Length { what: "numbers of members", given: members.len(), expected });
        }
        Ok(())
    }

    /// Declares classes, numbered in this order.
    ///
    /// # Errors
    /// [`ClassError::Number`] for none or more than [`MAX_CLASSES`], [`ClassError::Repeated`] for a name that is given
    /// twice.
    pub fn new(classes: Vec<Class>) -> Result<Self, ClassError> {
        if !(1..=MAX_CLASSES).contains(&classes.len()) {
            return Err(ClassError::Number { given: classes.len() });
        }
        let mut names = BTreeSet::new();
        if let Some(repeated) = classes.iter().find(|class| !names.insert(class.name.as_str())) {
            return Err(ClassError::Repeated { name: repeated.name.clone() });
        }
        Ok(Self(classes))
    }

    /// Declares a class for each level of privacy and each window, named `privacy/window`. All windows of the first
    /// level come first.
    pub fn levels(privacy: &[(&str, Epsilon)], windows: &[(&str, NonZeroU64)]) -> Result<Self, ClassError> {
        let class = |privacy: &(&str, Epsilon), window: &(&str, NonZeroU64)| Class {
            name: format!("{}/{}", privacy.0, window.0),
            requirement: Requirement { epsilon: privacy.1, window: window.1 },
        };
        let of_level = |level| windows.iter().map(move |window| class(level, window));
        Self::new(privacy.iter().flat_map(of_level).collect())
    }

    /// Declares classes named by their numbers.
    pub fn numbered(requirements: &[Requirement]) -> Result<Self, ClassError> {
        let class = |(number, requirement): (usize, &Requirement)| Class {
            name: number.to_string(),
            requirement: *requirement,
        };
        Self::new(requirements.iter().enumerate().map(class).collect())
    }

    /// Number of classes, at least one.
    #[allow(clippy::len_without_is_empty)] // never
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// All classes, in the order of their numbers.
    pub fn all(&self) -> &[Class] {
        &self.0
    }

    /// Number of the class with this name.
    #[allow(clippy::cast_possible_truncation)] // at most MAX_CLASSES
    pub fn find(&self, name: &str) -> Option<u16> {
        self.0.iter().position(|class| class.name == name).map(|position| position as u16)
    }

    /// Class numbers, as the kernel takes them.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = u32> + use<> {
        #[allow(clippy::cast_possible_truncation)] // at most MAX_CLASSES
        let end = self.0.len() as u16;
        (0..end).map(u32::from)
    }

    /// Longest window of a class.
    pub fn longest_window(&self) -> u64 {
        self.0.iter().map(|class| class.requirement.window.get()).max().unwrap_or(1)
    }

    /// Creates a ledger for each class.
    pub(crate) fn ledgers(&self) -> ClassLedgers {
        let mut ledgers = ClassLedgers::default();
        for (number, Class { requirement, .. }) in self.numbers().zip(&self.0) {
            ledgers.register(number, Ledger::new(requirement.epsilon, Window::Timestamps(requirement.window)));
        }
        ledgers
    }

    /// Whether the ledgers belong to these classes.
    pub(crate) fn are_of(&self, ledgers: &ClassLedgers) -> bool {
        let kept_for = |((number, ledger), (class, declared)): ((u32, &Ledger), (u32, &Class))| {
            let Requirement { epsilon, window } = declared.requirement;
            number == class && ledger.budget() == epsilon && ledger.window() == Window::Timestamps(window)
        };
        ledgers.iter().len() == self.len() && ledgers.iter().zip(self.numbers().zip(&self.0)).all(kept_for)
    }

    /// Guarantee of a class.
    ///
    /// # Errors
    /// [`ClassError::Unknown`].
    pub fn requirement(&self, class: u16) -> Result<Requirement, ClassError> {
        let found = self.0.get(usize::from(class)).map(|class| class.requirement);
        found.ok_or(ClassError::Unknown { class, classes: self.len() })
    }
}

impl TryFrom<Vec<Class>> for Classes {
    type Error = ClassError;

    fn try_from(classes: Vec<Class>) -> Result<Self, ClassError> {
        Self::new(classes)
    }
}

impl From<Classes> for Vec<Class> {
    fn from(classes: Classes) -> Self {
        classes.0
    }
}

/// Class of each user. Users are numbered 0, 1, 2, ... in the order of their first registration.
///
/// Takes two bytes for each user ever registered, and a record for each who moved within the longest window.
///
/// ```
/// use std::num::NonZeroU64;
/// use tidegate::central::classes::{Classes, Registry, Requirement};
/// use tidegate::central::{Personal, PersonalKind, PersonalSettings};
///
/// let window = |length| NonZeroU64::new(length).ok_or("a window has a length");
/// let careful = Requirement { epsilon: "0.1".parse()?, window: window(3)? };
/// let relaxed = Requirement { epsilon: "1".parse()?, window: window(2)? };
/// let classes = Classes::numbered(&[careful, relaxed])?;
/// let mechanism = Personal::new(PersonalKind::Pba, classes.clone(), PersonalSettings::new(5))?;
/// let mut registry = Registry::new(classes);
/// let (anna, ben) = (registry.join(0)?, registry.join(1)?);
/// registry.begin(0)?;
/// let _values = registry.seal(mechanism.ledgers().account(), 0, [(anna, 4), (ben, 2)], 5)?;
/// registry.change(ben, 0)?; // Ben counted at 0, and sits out 1 and 2
/// registry.begin(1)?;
/// assert_eq!((registry.class_of(ben), registry.members()), (None, &[1, 0][..]));
/// registry.begin(3)?;
/// assert_eq!((registry.class_of(ben), registry.members()), (Some(0), &[2, 0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Saved", into = "Saved")]
pub struct Registry {
    classes: Classes,
    /// Class in which each user counts, or [`NONE`].
    counting: Vec<u16>,
    /// Users who count in no class, unless they left long ago.
    moving: BTreeMap<u32, Moving>,
    /// Number of users who count in each class.
    members: Vec<u64>,
    /// Timestamp begun last.
    clock: Option<u64>,
}

const NONE: u16 = u16::MAX;

const VERSION: u16 = 1;

/// A user who counts in no class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Moving {
    /// Wanted class; none for a user who has left.
    #[serde(deserialize_with = "Option::deserialize")] // not to be left out
    wanted: Option<u16>,
    /// Class and timestamp at which the user last counted, if that still matters.
    #[serde(deserialize_with = "Option::deserialize")]
    counted: Option<(u16, u64)>,
}

impl Registry {
    /// Creates an empty registry.
    pub fn new(classes: Classes) -> Self {
        let members = vec![0; classes.len()];
        Self { classes, counting: Vec::new(), moving: BTreeMap::new(), members, clock: None }
    }

    /// Classes.
    pub const fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Number of users who count in each class at the open timestamp. It is public, and an argument of
    /// [`Personal::push`](super::Personal::push).
    pub fn members(&self) -> &[u64] {
        &self.members
    }

    /// Class in which a user counts at the open timestamp; `None` for one who sits out, has left or was never
    /// registered.
    pub fn class_of(&self, user: u32) -> Option<u16> {
        self.counting.get(user as usize).copied().filter(|class| *class != NONE)
    }

    /// Registers a new user, who counts from the next timestamp on. Returns the user's number, for ever: use
    /// [`rejoin`](Self::rejoin) after leaving. The guarantees do not hold for a person with two numbers.
    pub fn join(&mut self, class: u16) -> Result<u32, ClassError> {
        self.classes.requirement(class)?;
        let user = u32::try_from(self.counting.len()).map_err(|_| ClassError::Full)?;
        self.counting.push(NONE);
        self.moving.insert(user, Moving { wanted: Some(class), counted: None });
        Ok(user)
    }

    /// Registers the return of a user who has left.
    pub fn rejoin(&mut self, user: u32, class: u16) -> Result<(), ClassError> {
        self.classes.requirement(class)?;
        let counted = match self.find(user)? {
            Moving { wanted: Some(_), .. } => return Err(ClassError::IsThere { user }),
            Moving { wanted: None, counted } => counted,
        };
        self.set(user, Moving { wanted: Some(class), counted });
        Ok(())
    }

    /// Moves a user to another class.
    pub fn change(&mut self, user: u32, class: u16) -> Result<(), ClassError> {
        self.classes.requirement(class)?;
        match self.find(user)? {
            Moving { wanted: None, .. } => Err(ClassError::HasLeft { user }),
            Moving { wanted: Some(before), .. } if before == class => Ok(()),
            Moving { counted, .. } => {
                self.set(user, Moving { wanted: Some(class), counted });
                Ok(())
            }
        }
    }

    /// Removes a user, from the next timestamp on.
    pub fn leave(&mut self, user: u32) -> Result<(), ClassError> {
        match self.find(user)? {
            Moving { wanted: None, .. } => Err(ClassError::HasLeft { user }),
            Moving { counted, .. } => {
                self.set(user, Moving { wanted: None, counted });
                Ok(())
            }
        }
    }

    /// Wanted class of a user, and the class in which the user last counted.
    fn find(&self, user: u32) -> Result<Moving, ClassError> {
        if let Some(moving) = self.moving.get(&user) {
            return Ok(*moving);
        }
        match self.counting.get(user as usize).copied() {
            None => Err(ClassError::NoSuchUser { user }),
            Some(NONE) => Ok(Moving { wanted: None, counted: None }),
            // Anybody who counts did so at the open timestamp.
            Some(class) => Ok(Moving { wanted: Some(class), counted: self.clock.map(|clock| (class, clock)) }),
        }
    }

    fn set(&mut self, user: u32, moving: Moving) {
        // The user may still count at the open timestamp; that is harmless, since this timestamp is remembered.
        self.moving.insert(user, moving);
    }

    /// Opens a timestamp: until the next one, [`class_of`](Self::class_of) and [`members`](Self::members) refer to it.
    /// Costs O(users who moved within the longest window).
    ///
    /// # Errors
    /// [`ClassError::Time`] for a timestamp that is not after the last one.
    pub fn begin(&mut self, timestamp: u64) -> Result<(), ClassError> {
        if let Some(last) = self.clock
            && timestamp <= last
        {
            return Err(ClassError::Time { given: timestamp, last });
        }
        self.clock = Some(timestamp);
        let window_of = |class: u16| self.classes.0[usize::from(class)].requirement.window.get();
        let longest = self.classes.longest_window();
        let (counting, members) = (&mut self.counting, &mut self.members);
        self.moving.retain(|user, Moving { wanted, counted }| {
            let counts_in = &mut counting[*user as usize];
            if *counts_in != NONE {
                members[usize::from(*counts_in)] -= 1;
                *counts_in = NONE;
            }
            let since = counted.map(|(class, last)| (class, timestamp - last));
            let may_count = |wanted: u16| {
                since.is_none_or(|(class, since)| class == wanted || since >= window_of(class).max(window_of(wanted)))
            };
            match *wanted {
                Some(class) if may_count(class) => {
                    *counts_in = class;
                    members[usize::from(class)] += 1;
                    false
                }
                Some(_) => true,
                None => since.is_some_and(|(_, since)| since < longest),
            }
        });
        Ok(())
    }

    /// Continues from a save that may be older than the last publication at `last`. The next timestamp is at least
    /// `last` + longest window + 1, so that no window covers both forgotten and new spends. The same holds for the
    /// mechanism.
    ///
    /// Users who joined since the save register again. Those who changed or left repeat it.
    #[must_use]
    pub fn restored(mut self, last: u64) -> Self {
        let clock = last.saturating_add(self.classes.longest_window()).max(self.clock.unwrap_or(0));
        // Users who count are taken to have counted until now, to be safe.
        for (user, moving) in &mut self.moving {
            let counts_in = self.counting[*user as usize];
            if counts_in != NONE {
                moving.counted = Some((counts_in, clock));
            }
        }
        self.clock = Some(clock);
        self
    }

    /// [Seals](Self::seal) values for a mechanism with the given classes.
    pub(super) fn seal_for(
        &self,
        classes: &Classes,
        account: Account,
        timestamp: u64,
        values: impl IntoIterator<Item = (u32, u32)>,
        domain: u32,
    ) -> Result<Sealed<ClassHistograms>, CentralError> {
        if &self.classes != classes {
            return Err(CentralError::OtherClasses);
        }
        Ok(self.seal(account, timestamp, values, domain)?)
    }

    /// Seals the histograms of all classes for the open timestamp, from pairs of user and value. Values of users who
    /// sit out are dropped; users without a value are absent.
    ///
    /// Failure depends on the values: show errors only to those who may see them.
    ///
    /// # Errors
    /// [`ClassError::NotBegun`] for another timestamp, [`ClassError::UnknownUser`] and [`ClassError::SecondValue`] by
    /// the position of what is wrong, and [`ClassError::Histogram`].
    pub fn seal(
        &self,
        account: Account,
        timestamp: u64,
        values: impl IntoIterator<Item = (u32, u32)>,
        domain: u32,
    ) -> Result<Sealed<ClassHistograms>, ClassError> {
        if self.clock != Some(timestamp) {
            return Err(ClassError::NotBegun { given: timestamp });
        }
        let numbers: Vec<u32> = self.classes.numbers().collect();
        let mut seen = vec![0_u64; self.counting.len().div_ceil(64)];
        let mut wrong = None;
        let mut first_wrong = |error| {
            wrong.get_or_insert(error);
        };
        let counted = values.into_iter().enumerate().filter_map(|(position, (user, value))| {
            let Some(class) = self.counting.get(user as usize) else {
                first_wrong(ClassError::UnknownUser { position });
                return None;
            };
            let (word, bit) = (&mut seen[user as usize / 64], 1 << (user % 64));
            if *word & bit != 0 {
                first_wrong(ClassError::SecondValue { position });
            }
            *word |= bit;
            // Checked here, to report the position among all values, whether or not the user counts.
            if value >= domain {
                first_wrong(HistogramError::Value { position, domain }.into());
                return None;
            }
            (*class != NONE).then_some((u32::from(*class), value))
        });
        let sealed = seal_class_histograms(account, timestamp, counted, &numbers, domain)?;
        wrong.map_or(Ok(sealed), Err)
    }
}

/// Saved form; loading validates it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    version: u16,
    classes: Classes,
    counting: Vec<u16>,
    moving: BTreeMap<u32, Moving>,
    #[serde(deserialize_with = "Option::deserialize")]
    clock: Option<u64>,
}

impl From<Registry> for Saved {
    fn from(registry: Registry) -> Self {
        let Registry { classes, counting, moving, members: _, clock } = registry;
        Self { version: VERSION, classes, counting, moving, clock }
    }
}

impl TryFrom<Saved> for Registry {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved { version, classes, counting, moving, clock } = saved;
        if version != VERSION {
            return Err(format!("registry version {version} is not known; this program reads version {VERSION}"));
        }
        let known = |class: u16| usize::from(class) < classes.len();
        let mut members = vec![0; classes.len()];
        for class in counting.iter().filter(|class| **class != NONE) {
            let count = members.get_mut(usize::from(*class)).ok_or("a user counts in a class that does not exist")?;
            *count += 1;
        }
        let sound = |(user, Moving { wanted, counted }): (&u32, &Moving)| {
            // Users who count did so at the timestamp begun last.
            let remembered = |class: &u16| *class == NONE || *counted == clock.map(|clock| (*class, clock));
            counting.get(*user as usize).is_some_and(remembered)
                && wanted.is_none_or(known)
                && counted.is_none_or(|(class, last)| known(class) && Some(last) <= clock)
        };
        let never_begun = clock.is_none() && members.iter().any(|count| *count > 0);
        if !moving.iter().all(sound) || never_begun {
            return Err("the registry's users do not fit its classes or its clock".to_owned());
        }
        Ok(Self { classes, counting, moving, members, clock })
    }
}
