//! [`Audit`]: what the database has counted, copied by triggers before it is deleted.

use std::collections::BTreeMap;

use tidegate_kernel::oracle::Aggregate;
use tidegate_server::store::{Missing, OpenQuestion, PostgresStore};

use crate::database::Database;

/// Copies questions, frozen totals, and partial counts.
const TRIGGERS: &str = "
CREATE SCHEMA audit;
CREATE TABLE audit.questions (phase BIGINT, stream TEXT, body BYTEA);
CREATE TABLE audit.totals (phase BIGINT, body BYTEA);
CREATE TABLE audit.counts (phase BIGINT, source TEXT, counted BIGINT, body BYTEA);
CREATE FUNCTION audit.add_question() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO audit.questions
    SELECT NEW.number, name, NEW.body FROM tidegate.streams WHERE number = NEW.stream;
    RETURN NULL;
END $$;
CREATE FUNCTION audit.add_total() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO audit.totals VALUES (NEW.phase, NEW.total);
    RETURN NULL;
END $$;
CREATE FUNCTION audit.add_count() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO audit.counts VALUES (OLD.phase, OLD.source, OLD.counted, OLD.body);
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON tidegate.phases FOR EACH ROW EXECUTE FUNCTION audit.add_question();
CREATE TRIGGER audit AFTER UPDATE OF total ON tidegate.routes FOR EACH ROW WHEN (NEW.total IS NOT NULL)
    EXECUTE FUNCTION audit.add_total();
CREATE TRIGGER audit AFTER DELETE ON tidegate.counts FOR EACH ROW EXECUTE FUNCTION audit.add_count();
";

/// Counts of a question.
#[derive(Debug)]
pub(crate) struct Total {
    /// `None` where nobody was counted.
    pub(crate) counts: Option<Aggregate>,
    pub(crate) missing: Missing,
}

/// Counts by stream, timestamp and phase.
pub(crate) type Totals = BTreeMap<(String, u64, u16), Total>;

fn decode<T: serde::de::DeserializeOwned>(body: &[u8]) -> T {
    postcard::from_bytes(body).unwrap()
}

/// Makes the tables of the store, and triggers that copy what they forget.
pub(crate) fn install(database: &Database) {
    let words = database.url();
    drop(PostgresStore::open(&words).unwrap());
    database.execute(TRIGGERS);
}

/// Reads the counts of all questions that are over. Pushes what is wrong with them.
pub(crate) fn read(database: &Database, wrong: &mut Vec<String>) -> Totals {
    let mut client = database.client();
    let mut partial: BTreeMap<i64, Option<Aggregate>> = BTreeMap::new();
    for row in client.query("SELECT phase, body FROM audit.counts", &[]).unwrap() {
        let more: Aggregate = decode(row.get(1));
        match partial.entry(row.get(0)).or_default() {
            Some(sum) => sum.merge(&more).unwrap(),
            empty => *empty = Some(more),
        }
    }
    let mut frozen: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
    for row in client.query("SELECT phase, body FROM audit.totals", &[]).unwrap() {
        let (phase, body): (i64, Vec<u8>) = (row.get(0), row.get(1));
        if frozen.get(&phase).is_some_and(|before| *before != body) {
            wrong.push(format!("the total of question {phase} has changed"));
        }
        frozen.insert(phase, body);
    }
    let mut totals = Totals::new();
    let open = "SELECT phase, stream, body FROM audit.questions
                WHERE phase NOT IN (SELECT number FROM tidegate.phases)";
    for row in client.query(open, &[]).unwrap() {
        let (phase, stream): (i64, String) = (row.get(0), row.get(1));
        let question = decode::<OpenQuestion>(row.get(2)).question;
        let sum = partial.remove(&phase).flatten();
        let total = match frozen.get(&phase) {
            None => Total { counts: sum, missing: Missing::NOTHING },
            Some(body) => {
                // Of reports that come after the fence, some are in the parts.
                let (counts, missing): (Option<Aggregate>, Missing) = decode(body);
                Total { counts, missing }
            }
        };
        let key = (stream, question.timestamp, question.phase);
        if totals.insert(key.clone(), total).is_some() {
            wrong.push(format!("{key:?} was asked twice"));
        }
    }
    totals
}
