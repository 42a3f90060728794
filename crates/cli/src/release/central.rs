//! Users who trust whoever runs this, with one guarantee for all or one for each class; and `plbu`, in which they trust
//! nobody.

use std::io::Read;

use serde::{Deserialize, Serialize};
use tidegate::central::classes::{ClassError, Classes, Registry};
use tidegate::central::personal_track::PersonalTrack;
use tidegate::central::plbu::Plbu;
use tidegate::central::{Central, Personal};
use tidegate::kernel::primitives::seal_histogram;
use tidegate::kernel::{Randomness, Sealed, Window};
use tidegate::release::Release as Published;
use tidegate::rows::Shape;
use tidegate::spec::{CentralMachine, CentralSpec, Personalised, SpecError, Values};
use tidegate_device::{Device, DevicePolicy};
use tidegate_lab::datasets::{DataError, Format, long};

use super::gate::{Family, Next, Rejected};
use super::local::asked;
use super::rows::Released;
use super::state::{decoded, encoded, misfit};
use super::users::{Expected, Line, Roll};
use crate::failure::Failure;
use crate::input::Input;

pub(super) struct Curated {
    values: Values,
    machine: Machine,
    /// The timestamp that is open, and what its lines have said so far.
    open: Option<(u64, Held)>,
    last: Option<u64>,
}

enum Machine {
    One(Central),
    Personal { mechanism: Personalised, registry: Registry, roll: Roll<()> },
    Local { mechanism: Plbu, roll: Roll<Member> },
}

/// A user of `plbu`.
#[derive(Serialize, Deserialize)]
struct Member {
    class: u16,
    device: Device,
    /// Whether the user is in the table of users of this run.
    #[serde(skip)]
    is_there: bool,
}

enum Held {
    /// Pairs of user and value; the user is nobody where all have one guarantee.
    Values(Vec<(u32, u32)>),
    Counts(Vec<u64>),
}

#[derive(Serialize)]
enum Saving<'a> {
    One(&'a Central),
    Personal(&'a Personal, &'a Registry, Vec<(&'a str, &'a ())>),
    Local(&'a Plbu, Vec<(&'a str, &'a Member)>),
    PersonalTrack(&'a PersonalTrack, &'a Registry, Vec<(&'a str, &'a ())>),
}

#[derive(Deserialize)]
enum Saved {
    One(Central),
    Personal(Personal, Registry, Vec<(String, ())>),
    Local(Plbu, Vec<(String, Member)>),
    PersonalTrack(Box<PersonalTrack>, Registry, Vec<(String, ())>),
}

impl Curated {
    pub(super) fn new(spec: &CentralSpec) -> Result<Self, SpecError> {
        let machine = match spec.mechanism()? {
            CentralMachine::One(mechanism) => Machine::One(mechanism),
            CentralMachine::Personal(mechanism) => {
                let registry = Registry::new(mechanism.classes().clone());
                Machine::Personal { mechanism, registry, roll: Roll::of(Vec::new()) }
            }
            CentralMachine::Local(mechanism) => Machine::Local { mechanism, roll: Roll::of(Vec::new()) },
        };
        Ok(Self { values: spec.values()?, machine, open: None, last: None })
    }

    /// Goes on with a saved run.
    pub(super) fn restore(mut self, saved: Option<&[u8]>) -> Result<Self, Failure> {
        let Some(saved) = saved else { return Ok(self) };
        let (last, saved): (Option<u64>, Saved) = decoded(saved)?;
        let personal = |new: &Personalised, mechanism: Personalised, registry: Registry, users| {
            let fits = new.is_like(&mechanism) && new.classes() == registry.classes();
            fits.then(|| Machine::Personal { mechanism, registry, roll: Roll::of(users) })
        };
        let other = || misfit("it is of other settings");
        self.machine = match (self.machine, saved) {
            (Machine::One(new), Saved::One(mechanism))
                if new.settings() == mechanism.settings() && new.kind() == mechanism.kind() =>
            {
                Machine::One(mechanism)
            }
            (Machine::Personal { mechanism: new, .. }, Saved::Personal(mechanism, registry, users)) => {
                personal(&new, Personalised::Budgets(Box::new(mechanism)), registry, users).ok_or_else(other)?
            }
            (Machine::Personal { mechanism: new, .. }, Saved::PersonalTrack(mechanism, registry, users)) => {
                personal(&new, Personalised::Track(mechanism), registry, users).ok_or_else(other)?
            }
            (Machine::Local { mechanism: new, .. }, Saved::Local(mechanism, users))
                if new.classes() == mechanism.classes() =>
            {
                Machine::Local { mechanism, roll: Roll::of(users) }
            }
            _ => return Err(other()),
        };
        self.last = last;
        Ok(self)
    }

    /// Takes note of who is there, and in which class: the table of users, where each class has a guarantee of its own.
    pub(super) fn enrol(&mut self, table: Option<&str>) -> Result<(), Failure> {
        let table = match (&self.machine, table) {
            (Machine::One(_), None) => return Ok(()),
            (Machine::One(_), Some(_)) => {
                return Err(Failure::input("--users is for mechanisms in which each class has a guarantee of its own"));
            }
            (_, None) => {
                return Err(Failure::input(
                    "each class has a guarantee of its own: --users must name a table with the fields user,class",
                ));
            }
            (_, Some(table)) => table,
        };
        let format = super::TableFormat::of(table);
        let Input { name, source } = format.open(table)?;
        let domain = self.values.count();
        let mut there = Vec::new();
        long::read_users(&name, source, format.text(), "class", |user, class| {
            let enrolled = match &mut self.machine {
                Machine::One(_) => Ok(()),
                Machine::Personal { registry, roll, .. } => {
                    there.push(user.to_owned());
                    enrol_in_registry(registry, roll, user, class)
                }
                Machine::Local { mechanism, roll } => enrol_device(mechanism.classes(), roll, user, class, domain),
            };
            enrolled.map_err(Into::into)
        })
        .map_err(Failure::input)?;
        // Who is no longer in the table has left.
        if let Machine::Personal { registry, roll, .. } = &mut self.machine {
            let there: std::collections::HashSet<&str> = there.iter().map(String::as_str).collect();
            for (number, (name, ())) in (0..).zip(&roll.users) {
                if !there.contains(name.as_ref()) {
                    match registry.leave(number) {
                        Ok(()) | Err(ClassError::HasLeft { .. }) => {}
                        Err(error) => return Err(misfit(error)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Publishes the timestamp that is open.
    fn close(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), Failure> {
        let Some((timestamp, held)) = self.open.take() else { return Ok(()) };
        let domain = self.values.count();
        let releases: Vec<Published> = match (&mut self.machine, held) {
            (Machine::One(mechanism), Held::Values(values)) => {
                let values = values.into_iter().map(|(_, value)| value);
                let sealed =
                    seal_histogram(mechanism.ledger().account(), timestamp, values, domain).map_err(Failure::run)?;
                mechanism.push(&sealed, random).map_err(Failure::run)?
            }
            (Machine::One(mechanism), Held::Counts(counts)) => {
                let sealed = Sealed::at(mechanism.ledger().account(), timestamp, counts);
                mechanism.push(&sealed, random).map_err(Failure::run)?
            }
            (Machine::Personal { mechanism, registry, .. }, Held::Values(values)) => {
                registry.begin(timestamp).map_err(Failure::run)?;
                mechanism.push_registered(registry, timestamp, values, random).map_err(Failure::run)?
            }
            (Machine::Local { mechanism, roll }, Held::Values(values)) => {
                let questions = mechanism.open(timestamp).map_err(Failure::run)?;
                let mut by_class = vec![Vec::new(); questions.len()];
                for (user, value) in values {
                    let user = user as usize;
                    by_class[usize::from(roll.users[user].1.class)].push((user, value));
                }
                let answers = questions.iter().zip(by_class);
                let answers = answers.map(|(question, members)| {
                    asked(question, timestamp, &mut roll.users, members.into_iter(), random)
                });
                let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
                mechanism.answer(timestamp, &answers).map_err(Failure::run)?
            }
            // Counts are read only where all users have one guarantee.
            (_, Held::Counts(_)) => Vec::new(),
        };
        self.last = Some(timestamp);
        out.releases.extend(releases);
        Ok(())
    }

    /// The number of a user of the table of users; zero where there is none.
    fn number_of(&self, user: &str) -> Option<u32> {
        let number = match &self.machine {
            Machine::One(_) => Some(0),
            Machine::Personal { roll, .. } => roll.find(user),
            Machine::Local { roll, .. } => roll.find(user).filter(|number| roll.users[*number].1.is_there),
        };
        number.and_then(|number| u32::try_from(number).ok())
    }
}

/// What a class that does not exist is told.
fn class_of(classes: &Classes, name: &str) -> Result<u16, String> {
    let names = || classes.all().iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ");
    classes.find(name).ok_or_else(|| format!("a class of the spec: {}", names()))
}

fn enrol_in_registry(registry: &mut Registry, roll: &mut Roll<()>, user: &str, class: &str) -> Result<(), String> {
    let class = class_of(registry.classes(), class)?;
    let told = |error: ClassError| error.to_string();
    match roll.find(user) {
        None => {
            registry.join(class).map_err(told)?;
            roll.add(user.into(), ());
            Ok(())
        }
        Some(number) => {
            let number = u32::try_from(number).map_err(|error| error.to_string())?;
            match registry.rejoin(number, class) {
                Err(ClassError::IsThere { .. }) => registry.change(number, class).map_err(told),
                rejoined => rejoined.map_err(told),
            }
        }
    }
}

fn enrol_device(
    classes: &Classes,
    roll: &mut Roll<Member>,
    user: &str,
    class: &str,
    domain: u32,
) -> Result<(), String> {
    let class = class_of(classes, class)?;
    match roll.find(user) {
        Some(number) => {
            let member = &mut roll.users[number].1;
            if member.class != class {
                return Err(
                    "the class that the user had before: a device keeps the promise it was enrolled with".into()
                );
            }
            member.is_there = true;
        }
        None => {
            let requirement = classes.all()[usize::from(class)].requirement;
            let window = Window::Timestamps(requirement.window);
            let policy = DevicePolicy { epsilon: requirement.epsilon, window, domain };
            roll.add(user.into(), Member { class, device: Device::new(policy, 0), is_there: true });
        }
    }
    Ok(())
}

impl AsMut<Device> for Member {
    fn as_mut(&mut self) -> &mut Device {
        &mut self.device
    }
}

impl Family for Curated {
    type Item = Line;
    type Intake = Expected;

    fn shape(&self) -> Shape {
        Shape::Counts(self.values.clone())
    }

    fn intake(&self) -> Expected {
        let counts = matches!(self.machine, Machine::One(_));
        Expected { values: self.values.clone(), over: self.last, counts }
    }

    fn read<S: Read>(
        expected: Expected,
        name: &str,
        source: S,
        format: Format,
    ) -> Result<impl FnMut() -> Next<Line>, DataError> {
        expected.read(name, source, format)
    }

    fn push(&mut self, line: Line, random: &mut impl Randomness, out: &mut Released) -> Result<(), Rejected> {
        let timestamp = line.timestamp();
        if self.open.as_ref().is_some_and(|(open, _)| *open != timestamp) {
            self.close(random, out)?;
        }
        match line {
            Line::Value { user, value, .. } => {
                let number = self.number_of(&user).ok_or_else(|| Rejected::user("a user of the table of users"))?;
                let (_, held) = self.open.get_or_insert((timestamp, Held::Values(Vec::new())));
                if let Held::Values(values) = held {
                    values.push((number, value));
                }
            }
            // A line is a whole timestamp: nothing more is waited for.
            Line::Counts { counts, .. } => {
                self.open = Some((timestamp, Held::Counts(counts)));
                self.close(random, out)?;
            }
        }
        Ok(())
    }

    fn time_of(line: &Line) -> u64 {
        line.timestamp()
    }

    fn last(&self) -> Option<u64> {
        self.last
    }

    fn pass_empty(&mut self, timestamp: u64, random: &mut impl Randomness, out: &mut Released) -> Result<(), Failure> {
        self.close(random, out)?;
        self.open = Some((timestamp, Held::Values(Vec::new())));
        self.close(random, out)
    }

    fn finish(&mut self, random: &mut impl Randomness, out: &mut Released) -> Result<(), Failure> {
        self.close(random, out)
    }

    fn save(&self) -> Result<Vec<u8>, Failure> {
        let saving = match &self.machine {
            Machine::One(mechanism) => Saving::One(mechanism),
            Machine::Personal { mechanism, registry, roll } => match mechanism {
                Personalised::Budgets(mechanism) => Saving::Personal(mechanism, registry, roll.saving()),
                Personalised::Track(mechanism) => Saving::PersonalTrack(mechanism, registry, roll.saving()),
            },
            Machine::Local { mechanism, roll } => Saving::Local(mechanism, roll.saving()),
        };
        encoded(&(self.last, saving))
    }
}
