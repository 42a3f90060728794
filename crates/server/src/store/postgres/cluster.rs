//! Control plane of a cluster: partitions of the log and their readers, partial counts, and closing of questions.
//!
//! | transaction | effect, all or nothing |
//! | --- | --- |
//! | [`add_partitions`](PostgresStore::add_partitions) | adds partitions; questions that are asked later use them |
//! | [`lease_partitions`](PostgresStore::lease_partitions) | makes a worker the only reader, under an epoch |
//! | [`count`](PostgresStore::count) | moves the position of a partition together with its partial counts |
//! | [`begin_closing`](PostgresStore::begin_closing) | closes questions; no report is acknowledged for them any more |
//! | [`put_ends`](PostgresStore::put_ends) | stores up to which positions a closed question must be counted |
//! | [`freeze`](PostgresStore::freeze) | adds the partial counts up, once for all |

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use tidegate_kernel::oracle::Aggregate;
use tokio_postgres::Row;

use super::super::row::{Columns, QuestionRow, StreamRow, check, decode, encode, signed, stream_columns, sum};
use super::super::{Counted, Lease, Missing, OpenQuestion, StoreError};
use super::fault::Fault;
use super::pool::Connection;
use super::rows::{put_counts, questions_of, read_counts_of, read_questions, read_total, update_question};
use super::{PostgresOptions, PostgresStore, check_durable, lock_key};

/// Partition of the log, as the control plane knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Number, from zero.
    pub number: u32,
    /// Fencing token of its reader.
    pub epoch: u64,
    /// Worker that reads it.
    pub holder: Option<String>,
    /// End of the reader's lease, in milliseconds since 1970 by the database's clock.
    pub until: u64,
    /// Position of the first record that is not counted.
    pub counted: u64,
    /// Position of the first record that an open question may still need.
    pub kept: u64,
}

const PARTITIONS: &str =
    "SELECT number, epoch, holder, until, counted, kept, sum FROM tidegate.partitions ORDER BY number";

impl Partition {
    fn read(row: &Row) -> Result<Self, Fault> {
        let number: i32 = row.try_get(0)?;
        let number = u32::try_from(number).map_err(|_| StoreError::Damaged("a negative partition".to_owned()))?;
        let partition = Self {
            number,
            epoch: row.number(1)?,
            holder: row.optional_text(2)?,
            until: row.number(3)?,
            counted: row.number(4)?,
            kept: row.number(5)?,
        };
        check(row.integer(6)?, partition.sum(), || format!("partition {number}"))?;
        Ok(partition)
    }

    fn sum(&self) -> i64 {
        let numbers = [u64::from(self.number), self.epoch, self.until, self.counted, self.kept].map(u64::to_le_bytes);
        let holder = self.holder.as_deref().unwrap_or_default();
        sum(&[b"partition", &numbers.concat(), &[u8::from(self.holder.is_some())], holder.as_bytes()])
    }

    fn write(&self, connection: &mut Connection) -> Result<(), Fault> {
        connection.execute(
            "INSERT INTO tidegate.partitions (number, epoch, holder, until, counted, kept, sum)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (number) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder,
                 until = excluded.until, counted = excluded.counted, kept = excluded.kept, sum = excluded.sum",
            &[
                &column(self.number)?,
                &signed(self.epoch)?,
                &self.holder,
                &signed(self.until)?,
                &signed(self.counted)?,
                &signed(self.kept)?,
                &self.sum(),
            ],
        )?;
        Ok(())
    }

    /// Reads a partition and locks it until the transaction ends.
    fn lock(connection: &mut Connection, number: u32) -> Result<Option<Self>, Fault> {
        let sql = "SELECT number, epoch, holder, until, counted, kept, sum FROM tidegate.partitions
                   WHERE number = $1 FOR UPDATE";
        connection.query(sql, &[&column(number)?])?.first().map(Self::read).transpose()
    }
}

/// Next position of a partition, with the partial counts up to it.
#[derive(Clone, Debug, Default)]
pub struct PartitionCommit {
    /// Partition.
    pub number: u32,
    /// Fencing token.
    pub epoch: u64,
    /// Position up to which it was counted before.
    pub from: u64,
    /// Position up to which it is counted now.
    pub to: u64,
    /// Position of the first record that an open question may still need.
    pub kept: u64,
    /// Partial counts that have changed: question, number of reports, and aggregate.
    pub counts: Vec<(i64, u64, Aggregate)>,
    /// All questions that the reader remembers reports of.
    pub known: Vec<i64>,
}

/// Way of a question through the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Number of the question, which is never used again.
    pub number: i64,
    /// Stream.
    pub stream: String,
    /// Question.
    pub open: OpenQuestion,
    /// Number of partitions among which its reports are divided; zero where they are counted by the store itself.
    pub partitions: u32,
    /// Whether it is closed.
    pub closed: bool,
}

impl Route {
    /// Returns a hash by which a record names its question. A database that was restored from a backup gives the same
    /// number to another question.
    pub fn tag(&self) -> u64 {
        let question = &self.open.question;
        let (timestamp, phase) = (question.timestamp.to_le_bytes(), question.phase.to_le_bytes());
        sum(&[b"route", &self.number.to_le_bytes(), self.stream.as_bytes(), &timestamp, &phase]).cast_unsigned()
    }
}

/// Closed question.
#[derive(Clone, Debug, PartialEq)]
pub struct Closing {
    /// Number of the question.
    pub number: i64,
    /// Number of partitions among which its reports are divided.
    pub partitions: u32,
    /// Positions up to which each partition must be counted, once they are known.
    pub ends: Option<Vec<u64>>,
    /// Its counts, once they are added up.
    pub frozen: Option<Counted>,
}

/// Living process of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Random name.
    pub name: String,
    /// `gateway`, `worker` or `driver`.
    pub role: String,
    /// When it was started, in milliseconds since 1970 by the database's clock.
    pub started: u64,
    /// Until when it counts as alive.
    pub until: u64,
    /// What it tells of itself, as JSON.
    pub figures: String,
}

/// Frozen counts as they are stored: aggregate and what is missing.
type Frozen = (Option<Aggregate>, Missing);

fn column(number: u32) -> Result<i32, StoreError> {
    i32::try_from(number).map_err(|_| StoreError::Failed(format!("{number} exceeds the largest partition")))
}

fn uncolumn(row: &Row, column: usize) -> Result<u32, Fault> {
    let number: i32 = row.try_get(column)?;
    u32::try_from(number).map_err(|_| StoreError::Damaged("a negative number of partitions".to_owned()).into())
}

/// Returns the database's time, in milliseconds since 1970.
fn clock(connection: &mut Connection) -> Result<u64, Fault> {
    connection.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8", &[])?[0].number(0)
}

/// Name under which the counts of a partition are stored.
fn source(partition: u32) -> String {
    format!("log/{partition}")
}

fn frozen_sum(question: i64, body: &[u8]) -> i64 {
    sum(&[b"frozen", &question.to_le_bytes(), body])
}

impl PostgresStore {
    /// Returns all partitions, in order. A database without any belongs to no cluster.
    ///
    /// # Errors
    /// Only general errors.
    pub fn partitions(&self) -> Result<Vec<Partition>, StoreError> {
        self.read("partitions", |connection| connection.query(PARTITIONS, &[])?.iter().map(Partition::read).collect())
    }

    /// Adds partitions, which are counted from the given positions on. Those that are there are left as they are.
    ///
    /// # Errors
    /// Only general errors.
    pub fn add_partitions(&self, first: &BTreeMap<u32, u64>) -> Result<(), StoreError> {
        self.write("add_partitions", |connection| {
            connection.execute("SELECT pg_advisory_xact_lock($1)", &[&lock_key("")])?;
            for (number, counted) in first {
                if Partition::lock(connection, *number)?.is_none() {
                    let (number, counted) = (*number, *counted);
                    let added = Partition { number, epoch: 0, holder: None, until: 0, counted, kept: counted };
                    added.write(connection)?;
                }
            }
            Ok(())
        })
    }

    /// Makes a worker the reader of wanted partitions, and ends its leases of others. A partition whose lease another
    /// worker holds is left to it. Returns the partitions that it holds, for `lease` milliseconds from now on.
    ///
    /// A new reader gets the next epoch. Safety rests on the epoch, never on clocks.
    ///
    /// # Errors
    /// Only general errors.
    pub fn lease_partitions(&self, holder: &str, wanted: &[u32], lease: u64) -> Result<Vec<Partition>, StoreError> {
        self.write("lease_partitions", |connection| {
            let now = clock(connection)?;
            let numbers: Vec<u32> =
                connection.query(PARTITIONS, &[])?.iter().map(|row| uncolumn(row, 0)).collect::<Result<_, Fault>>()?;
            let mut held = Vec::new();
            for number in numbers {
                let Some(mut partition) = Partition::lock(connection, number)? else { continue };
                let is_mine = partition.holder.as_deref() == Some(holder);
                match (is_mine, wanted.contains(&number)) {
                    (false, false) => continue,
                    (false, true) if partition.holder.is_some() && partition.until > now => continue,
                    (false, true) => {
                        partition.epoch += 1;
                        partition.holder = Some(holder.to_owned());
                        partition.until = now.saturating_add(lease);
                    }
                    (true, true) => partition.until = now.saturating_add(lease),
                    (true, false) => (partition.holder, partition.until) = (None, 0),
                }
                partition.write(connection)?;
                held.extend(partition.holder.is_some().then_some(partition));
            }
            Ok(held)
        })
    }

    /// Moves a partition to its next position, together with its partial counts. Returns which of the known questions
    /// are over.
    ///
    /// # Errors
    /// [`StoreError::Stale`] for another epoch or another position: then nothing has changed. After
    /// [`StoreError::Unknown`] read the partition again.
    pub fn count(&self, commit: &PartitionCommit) -> Result<Vec<i64>, StoreError> {
        self.write("count", |connection| {
            let stale = || StoreError::Stale(format!("partition {}", commit.number));
            let mut partition = Partition::lock(connection, commit.number)?.ok_or_else(stale)?;
            if (partition.epoch, partition.counted) != (commit.epoch, commit.from) {
                return Err(stale().into());
            }
            (partition.counted, partition.kept) = (commit.to, commit.kept);
            partition.write(connection)?;
            let sql = "SELECT number FROM tidegate.phases WHERE number = ANY($1)";
            let rows = connection.query(sql, &[&commit.known])?;
            let there: HashSet<i64> = rows.iter().map(|row| row.integer(0)).collect::<Result<_, Fault>>()?;
            let counts = commit.counts.iter().filter(|(question, ..)| there.contains(question));
            let source = source(commit.number);
            put_counts(connection, &source, counts.map(|(question, reports, total)| (*question, *reports, total)))?;
            let over: Vec<i64> = commit.known.iter().copied().filter(|question| !there.contains(question)).collect();
            if !over.is_empty() {
                // A question may have ended while its counts were on their way.
                let sql = "DELETE FROM tidegate.counts WHERE phase = ANY($1) AND source = $2";
                connection.execute(sql, &[&over, &source])?;
            }
            Ok(over)
        })
    }

    /// Reads the partial counts of questions in a partition: the number of reports, and their aggregate.
    ///
    /// # Errors
    /// Only general errors.
    pub fn partial_counts(
        &self,
        partition: u32,
        questions: &[i64],
    ) -> Result<HashMap<i64, (u64, Aggregate)>, StoreError> {
        self.read("partial_counts", |connection| read_counts_of(connection, questions, &source(partition)))
    }

    /// Reads the ways of questions by their numbers. Questions that are over are left out.
    ///
    /// # Errors
    /// Only general errors.
    pub fn routes(&self, questions: &[i64]) -> Result<Vec<Route>, StoreError> {
        self.read("routes", |connection| {
            let sql = concat!(
                "SELECT ",
                stream_columns!(),
                " FROM tidegate.streams WHERE number IN (SELECT stream FROM tidegate.phases WHERE number = ANY($1))"
            );
            let streams = connection.query(sql, &[&questions])?;
            let mut routes = routes_of(connection, &streams)?;
            routes.retain(|route| questions.contains(&route.number));
            Ok(routes)
        })
    }

    /// Reads the ways of all questions of some streams.
    ///
    /// # Errors
    /// Only general errors.
    pub fn routes_of(&self, streams: &[&str]) -> Result<Vec<Route>, StoreError> {
        self.read("routes_of", |connection| {
            let sql = concat!("SELECT ", stream_columns!(), " FROM tidegate.streams WHERE name = ANY($1)");
            let streams = connection.query(sql, &[&streams])?;
            routes_of(connection, &streams)
        })
    }

    /// Returns those of the questions that are open.
    ///
    /// # Errors
    /// Only general errors.
    pub fn still_open(&self, questions: &[i64]) -> Result<HashSet<i64>, StoreError> {
        self.read("still_open", |connection| {
            let sql = "SELECT number FROM tidegate.phases WHERE number = ANY($1) AND NOT closed";
            connection.query(sql, &[&questions])?.iter().map(|row| row.integer(0)).collect()
        })
    }

    /// Closes the open questions of streams. Returns the closed questions of each, in order.
    ///
    /// # Errors
    /// [`StoreError::Stale`] and [`StoreError::NoStream`], for each stream.
    #[allow(clippy::type_complexity)] // outcomes of streams
    pub fn begin_closing(&self, closes: &[(&Lease, u64)]) -> Result<Vec<Result<Vec<Closing>, StoreError>>, StoreError> {
        self.write("begin_closing", |connection| {
            let mut locks: Vec<i64> = closes.iter().map(|(lease, _)| lock_key(&lease.stream)).collect();
            locks.sort_unstable();
            connection.query("SELECT pg_advisory_xact_lock(stream) FROM unnest($1::int8[]) AS stream", &[&locks])?;
            let each = |(lease, version): &(&Lease, u64)| {
                let sql = concat!("SELECT ", stream_columns!(), " FROM tidegate.streams WHERE name = $1");
                let rows = connection.query(sql, &[&lease.stream])?;
                let Some(row) = rows.first().map(StreamRow::read).transpose()? else {
                    return Ok(Err(StoreError::NoStream(lease.stream.clone())));
                };
                if let Err(stale) = row.fence(lease, *version) {
                    return Ok(Err(stale));
                }
                let mut closing = Vec::new();
                for (place, mut question) in (0..).zip(read_questions(connection, &row)?) {
                    if !question.closed {
                        question.closed = true;
                        update_question(connection, &row, place, &question)?;
                    }
                    closing.push(closing_of(connection, &question)?);
                }
                Ok(Ok(closing))
            };
            closes.iter().map(each).collect()
        })
    }

    /// Stores up to which position of each partition closed questions must be counted, unless that is known.
    ///
    /// # Errors
    /// Only general errors.
    pub fn put_ends(&self, ends: &[(i64, Vec<u64>)]) -> Result<(), StoreError> {
        self.write("put_ends", |connection| {
            for (question, ends) in ends {
                let ends: Vec<i64> = ends.iter().map(|end| signed(*end)).collect::<Result<_, _>>()?;
                let sql = "UPDATE tidegate.routes SET ends = $2 WHERE phase = $1 AND ends IS NULL";
                connection.execute(sql, &[question, &ends])?;
            }
            Ok(())
        })
    }

    /// Adds up the partial counts of closed questions, unless that was done before. Returns the counts of each.
    ///
    /// # Errors
    /// Only general errors.
    pub fn freeze(&self, questions: &[(i64, Missing)]) -> Result<Vec<Counted>, StoreError> {
        self.write("freeze", |connection| {
            let each = |(question, missing): &(i64, Missing)| {
                let sql = "SELECT total, sum FROM tidegate.routes WHERE phase = $1 FOR UPDATE";
                let rows = connection.query(sql, &[question])?;
                if let Some(frozen) = rows.first().map(|row| read_frozen(*question, row, 0)).transpose()?.flatten() {
                    return Ok(frozen);
                }
                let counted = Counted { total: read_total(connection, *question)?, missing: *missing };
                let frozen: Frozen = (counted.total.clone(), counted.missing);
                let body = encode(&frozen)?;
                let sql = "UPDATE tidegate.routes SET total = $2, sum = $3 WHERE phase = $1";
                connection.execute(sql, &[question, &body, &frozen_sum(*question, &body)])?;
                Ok(counted)
            };
            questions.iter().map(each).collect()
        })
    }

    /// Says that a process is alive, for `lease` milliseconds from now on. Returns all processes that are.
    ///
    /// # Errors
    /// Only general errors.
    pub fn announce(&self, name: &str, role: &str, figures: &str, lease: u64) -> Result<Vec<Process>, StoreError> {
        self.write("announce", |connection| {
            let now = clock(connection)?;
            connection.execute(
                "INSERT INTO tidegate.processes (name, role, started, until, figures) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (name) DO UPDATE SET until = excluded.until, figures = excluded.figures",
                &[&name, &role, &signed(now)?, &signed(now.saturating_add(lease))?, &figures],
            )?;
            // Those that died long ago are forgotten.
            let dead = signed(now.saturating_sub(3_600_000))?;
            connection.execute("DELETE FROM tidegate.processes WHERE until < $1", &[&dead])?;
            read_processes(connection, now)
        })
    }

    /// Says that a process has ended.
    ///
    /// # Errors
    /// Only general errors.
    pub fn retire_process(&self, name: &str) -> Result<(), StoreError> {
        self.write("retire_process", |connection| {
            connection.execute("DELETE FROM tidegate.processes WHERE name = $1", &[&name])?;
            Ok(())
        })
    }

    /// Returns the processes that are alive, by role and name.
    ///
    /// # Errors
    /// Only general errors.
    pub fn processes(&self) -> Result<Vec<Process>, StoreError> {
        self.read("processes", |connection| {
            let now = clock(connection)?;
            read_processes(connection, now)
        })
    }
}

/// A database, as an operator finds it before the processes of a cluster start.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The database's time, in milliseconds since 1970.
    pub clock: u64,
    /// Setting `synchronous_standby_names`; empty where no commit waits for a standby.
    pub standbys: String,
    /// Partitions; none where the cluster never ran.
    pub partitions: Vec<Partition>,
    /// Living processes.
    pub processes: Vec<Process>,
}

impl PostgresStore {
    /// Reads what concerns a cluster, and changes nothing.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn examine(url: &str) -> Result<Examination, StoreError> {
        let store = Self::connect(url, PostgresOptions::default())?;
        store.read("examine", |connection| {
            check_durable(connection)?;
            let clock = clock(connection)?;
            let standbys = connection.query("SHOW synchronous_standby_names", &[])?[0].text(0)?;
            let (mut partitions, mut processes) = (Vec::new(), Vec::new());
            if connection.query("SELECT to_regclass('tidegate.partitions') IS NOT NULL", &[])?[0].flag(0)? {
                let rows = connection.query(PARTITIONS, &[])?;
                partitions = rows.iter().map(Partition::read).collect::<Result<_, Fault>>()?;
                processes = read_processes(connection, clock)?;
            }
            Ok(Examination { clock, standbys, partitions, processes })
        })
    }
}

fn read_processes(connection: &mut Connection, now: u64) -> Result<Vec<Process>, Fault> {
    let sql = "SELECT name, role, started, until, figures FROM tidegate.processes WHERE until > $1
               ORDER BY role, name COLLATE \"C\"";
    let rows = connection.query(sql, &[&signed(now)?])?;
    let read = |row: &Row| {
        let (name, role, figures) = (row.text(0)?, row.text(1)?, row.text(4)?);
        Ok(Process { name, role, started: row.number(2)?, until: row.number(3)?, figures })
    };
    rows.iter().map(read).collect()
}

/// Reads the ways of all questions of streams.
fn routes_of(connection: &mut Connection, streams: &[Row]) -> Result<Vec<Route>, Fault> {
    let streams: Vec<StreamRow> = streams.iter().map(StreamRow::read).collect::<Result<_, Fault>>()?;
    let questions = questions_of(connection, &streams)?;
    let numbers: Vec<i64> = questions.iter().flatten().map(|question| question.number).collect();
    let rows = connection.query("SELECT phase, partitions FROM tidegate.routes WHERE phase = ANY($1)", &[&numbers])?;
    let partitions: HashMap<i64, u32> =
        rows.iter().map(|row| Ok((row.integer(0)?, uncolumn(row, 1)?))).collect::<Result<_, Fault>>()?;
    let of_stream = |(stream, questions): (StreamRow, Vec<QuestionRow>)| {
        let partitions = &partitions;
        questions.into_iter().map(move |QuestionRow { number, asked, closed }| Route {
            number,
            stream: stream.name.clone(),
            open: asked,
            partitions: partitions.get(&number).copied().unwrap_or(0),
            closed,
        })
    };
    Ok(streams.into_iter().zip(questions).flat_map(of_stream).collect())
}

fn read_frozen(question: i64, row: &Row, from: usize) -> Result<Option<Counted>, Fault> {
    let body: Option<Vec<u8>> = row.try_get(from)?;
    let Some(body) = body else { return Ok(None) };
    let found: Option<i64> = row.try_get(from + 1)?;
    check(found.unwrap_or_default(), frozen_sum(question, &body), || format!("the counts of question {question}"))?;
    let (total, missing): Frozen = decode(&body, "total")?;
    Ok(Some(Counted { total, missing }))
}

fn closing_of(connection: &mut Connection, question: &QuestionRow) -> Result<Closing, Fault> {
    let number = question.number;
    let sql = "SELECT partitions, ends, total, sum FROM tidegate.routes WHERE phase = $1";
    let rows = connection.query(sql, &[&number])?;
    let Some(row) = rows.first() else {
        // It was asked before there were partitions.
        let total = read_total(connection, number)?;
        return Ok(Closing { number, partitions: 0, ends: Some(Vec::new()), frozen: Some(Counted::whole(total)) });
    };
    let ends: Option<Vec<i64>> = row.try_get(1)?;
    let ends = ends.map(|ends| ends.iter().map(|end| end.cast_unsigned()).collect());
    Ok(Closing { number, partitions: uncolumn(row, 0)?, ends, frozen: read_frozen(number, row, 2)? })
}
