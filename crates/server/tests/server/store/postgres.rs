//! The PostgreSQL store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_server::store::{
    Advance, NewRecord, PostgresOptions, PostgresStore, RecordFilter, RecordKind, Store, StoreError,
};

use super::migration::{acknowledge_the_alarm, raise_an_alarm};
use super::{accept, advance, batch, begin, conformance, counts, create, differential, open, taken};
use crate::postgres::Postgres;

#[test]
fn postgres_conforms_and_agrees_with_the_model() {
    let server = Postgres::start();
    let mut broken = Vec::new();
    for (name, rule) in conformance::ALL {
        server.clear();
        let store = PostgresStore::open(&server.url()).unwrap();
        if catch_unwind(AssertUnwindSafe(|| rule(&store))).is_err() {
            broken.push(*name);
        }
    }
    assert!(broken.is_empty(), "these do not hold: {broken:?}");
    for seed in 100..103 {
        server.clear();
        let open = || PostgresStore::open(&server.url()).unwrap();
        differential::compare(seed, &open, &open());
    }
}

#[test]
fn a_failing_database_loses_and_invents_nothing() {
    let mut server = Postgres::start();
    let url = server.url();
    let store = PostgresStore::open(&url).unwrap();
    let lease = begin(&store, "a", &[open(3, 0)]);
    accept(&store, "a", &batch("a", 3, 0, [(1, 1), (2, 1)])).unwrap().unwrap();

    // Connections that are cut while nobody uses them are replaced.
    let cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'tidegate'";
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    assert!(!client.query(cut, &[]).unwrap().is_empty());
    assert_eq!(accept(&store, "a", &batch("a", 3, 0, [(2, 1), (3, 1)])).unwrap(), Ok(taken(1, 1, 0, 0)));

    // A server that is not there is not available; one that was killed has all that was acknowledged.
    server.stop("KILL");
    // Its processes notice one after the other.
    let gone = (0..500).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        store.status("a").err()
    });
    assert!(matches!(gone, Some(StoreError::Unavailable(_))), "{gone:?}");
    assert!(matches!(accept(&store, "a", &batch("a", 3, 0, [(4, 1)])), Err(StoreError::Unavailable(_))));
    assert!(matches!(PostgresStore::open(&url), Err(StoreError::Unavailable(_))));
    server.run();
    assert_eq!(accept(&store, "a", &batch("a", 3, 0, [(3, 1), (4, 1)])).unwrap(), Ok(taken(1, 1, 0, 0)));
    assert_eq!(counts(store.close(&lease, 1).unwrap()[0].as_ref().unwrap()), [0, 4, 0, 0, 0, 0, 0, 0]);

    // Reports are forgotten with their question.
    advance(&store, &lease, 1, &[open(4, 0)]).unwrap();
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    let left: i64 = client.query_one("SELECT count(*) FROM tidegate.log", &[]).unwrap().get(0);
    assert_eq!(left, 0);

    // A changed byte is detected, and writing stops.
    create(&store, "b");
    server.execute(
        "UPDATE tidegate.states SET body = set_byte(body, 0, 0)
         WHERE stream = (SELECT number FROM tidegate.streams WHERE name = 'b')",
    );
    assert!(matches!(store.stream("b"), Err(StoreError::Damaged(_))));
    assert!(matches!(advance(&store, &lease, 2, &[]), Err(StoreError::Failed(_))));
    drop(store);

    // A database that a later version has changed, or that does not sync, is left alone.
    server.execute("UPDATE tidegate.meta SET schema = 99");
    assert!(matches!(PostgresStore::open(&url), Err(StoreError::Schema { found, .. }) if found == "99"));
    server.execute("UPDATE tidegate.meta SET schema = 6");
    server.execute("ALTER SYSTEM SET fsync = off");
    server.execute("SELECT pg_reload_conf()");
    let refused = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        matches!(PostgresStore::open(&url), Err(StoreError::Failed(why)) if why.contains("fsync"))
    });
    assert!(refused);

    // An error does not repeat the URL, which contains a password.
    let error = PostgresStore::open("postgres://tidegate:secret@[").unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
}

/// Turns the tables into those of version 1, which had a row for each identity.
fn to_version_1(server: &Postgres) {
    server.execute(
        "CREATE TABLE tidegate.seen (
             phase BIGINT NOT NULL, id BYTEA NOT NULL, digest BIGINT NOT NULL, PRIMARY KEY (phase, id)
         )",
    );
    let mut client = postgres::Client::connect(&server.url(), postgres::NoTls).unwrap();
    for row in client.query("SELECT phase, body FROM tidegate.log", &[]).unwrap() {
        let (phase, body): (i64, Vec<u8>) = (row.get(0), row.get(1));
        for logged in body.as_chunks::<20>().0 {
            let id = [&[0; 4], &logged[..12]].concat();
            let digest = i64::from_le_bytes(logged[12..].try_into().unwrap());
            client.execute("INSERT INTO tidegate.seen VALUES ($1, $2, $3)", &[&phase, &id, &digest]).unwrap();
        }
    }
    // One of a question that is over, as a service leaves it that stops before its sweep.
    server.execute("INSERT INTO tidegate.seen VALUES (99, '\\x00', 0)");
    server.execute("DROP TABLE tidegate.log; UPDATE tidegate.meta SET schema = 1");
    forget_kept_records(server);
}

/// Turns the rows of streams into those of versions 1 and 2, with the checksums of those, and drops later tables.
fn forget_kept_records(server: &Postgres) {
    let mut client = postgres::Client::connect(&server.url(), postgres::NoTls).unwrap();
    let sql = "SELECT number, name, declaration, policy, status, holder, epoch, until, version, published, releases,
                   answers, open FROM tidegate.streams";
    for row in client.query(sql, &[]).unwrap() {
        let texts: Vec<String> = (1..5).map(|column| row.get(column)).collect();
        let holder: Option<String> = row.get(5);
        let numbers: Vec<u8> = (6..13).flat_map(|column| row.get::<_, i64>(column).to_le_bytes()).collect();
        let (is_held, holder) = ([u8::from(holder.is_some())], holder.unwrap_or_default());
        let mut parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        parts.extend([&is_held[..], holder.as_bytes(), &numbers]);
        let mut hasher = siphasher::sip::SipHasher24::new_with_key(b"tidegate: stored");
        for part in parts {
            std::hash::Hasher::write(&mut hasher, &(part.len() as u64).to_le_bytes());
            std::hash::Hasher::write(&mut hasher, part);
        }
        let sum = std::hash::Hasher::finish(&hasher).cast_signed();
        let number: i64 = row.get(0);
        client.execute("UPDATE tidegate.streams SET sum = $2 WHERE number = $1", &[&number, &sum]).unwrap();
    }
    server.execute(
        "ALTER TABLE tidegate.streams RENAME COLUMN answers TO said;
         ALTER TABLE tidegate.streams DROP COLUMN releases_kept, DROP COLUMN answers_kept;
         DROP INDEX tidegate.events_of_monitors; DROP TABLE tidegate.acknowledgements;
         DROP TABLE tidegate.members; DROP TABLE tidegate.registries;
         DROP TABLE tidegate.partitions; DROP TABLE tidegate.routes; DROP TABLE tidegate.processes",
    );
}

#[test]
fn a_database_of_version_4_gets_acknowledgements() {
    let server = Postgres::start();
    let store = PostgresStore::open(&server.url()).unwrap();
    raise_an_alarm(&store);
    let before = whole(&store);
    server.execute(
        "DROP INDEX tidegate.events_of_monitors; DROP TABLE tidegate.acknowledgements;
         DROP TABLE tidegate.partitions; DROP TABLE tidegate.routes; DROP TABLE tidegate.processes;
         UPDATE tidegate.meta SET schema = 4",
    );
    let store = PostgresStore::open(&server.url()).unwrap();
    assert_eq!(whole(&store), before);
    acknowledge_the_alarm(&store);
}

/// Reads everything of a stream.
fn whole(store: &PostgresStore) -> String {
    let records = [RecordKind::Release, RecordKind::Answer]
        .map(|kind| store.records("a", kind, &RecordFilter::default()).unwrap());
    format!("{:?} {records:?}", store.stream("a").unwrap())
}

#[test]
fn a_database_of_version_2_counts_its_records() {
    let server = Postgres::start();
    let store = PostgresStore::open(&server.url()).unwrap();
    let lease = begin(&store, "a", &[open(3, 0)]);
    let record = |timestamp| NewRecord { timestamp, body: format!("{{\"at\": {timestamp}}}") };
    let releases = vec![record(1), record(2)];
    store.advance(&lease, Advance { version: 1, releases, open: vec![open(4, 0)], ..Advance::default() }).unwrap();
    store.publish(&lease, 2).unwrap();
    accept(&store, "a", &batch("a", 4, 0, [(1, 1)])).unwrap().unwrap();
    let before = whole(&store);
    forget_kept_records(&server);
    server.execute("UPDATE tidegate.meta SET schema = 2");
    // Looking migrates nothing.
    let seen = PostgresStore::inspect(&server.url()).unwrap().unwrap();
    assert_eq!((seen[0].version, seen.len()), (2, 1));
    assert!(store.stream("a").is_err(), "it was migrated");
    let store = PostgresStore::open(&server.url()).unwrap();
    assert_eq!(whole(&store), before);
    assert_eq!(accept(&store, "a", &batch("a", 4, 0, [(1, 1), (2, 1)])).unwrap(), Ok(taken(1, 1, 0, 0)));
    let (releases, forget) = (vec![record(3)], Some(2));
    store.advance(&lease, Advance { version: 2, releases, forget, ..Advance::default() }).unwrap();
    store.publish(&lease, 3).unwrap();
    let numbers = store.records("a", RecordKind::Release, &RecordFilter::default()).unwrap();
    assert_eq!(numbers.iter().map(|record| record.number).collect::<Vec<_>>(), [2, 3]);
    assert!(store.bytes().unwrap() > 8_192);
    // One of an altered row is damage, not a migration.
    forget_kept_records(&server);
    server.execute("UPDATE tidegate.meta SET schema = 2; UPDATE tidegate.streams SET version = 9");
    assert!(matches!(PostgresStore::open(&server.url()), Err(StoreError::Damaged(_))));
}

#[test]
fn a_database_of_version_1_keeps_its_identities() {
    let server = Postgres::start();
    let store = PostgresStore::open(&server.url()).unwrap();
    let lease = begin(&store, "a", &[open(3, 0), open(3, 1)]);
    let first: Vec<_> = (0..300).map(|device| (device, 1)).collect();
    accept(&store, "a", &batch("a", 3, 0, first.iter().copied())).unwrap().unwrap();
    accept(&store, "a", &batch("a", 3, 1, [(1, 2)])).unwrap().unwrap();
    to_version_1(&server);
    assert!(matches!(accept(&store, "a", &batch("a", 3, 0, [(1, 2)])), Err(StoreError::Failed(_))));
    let store = PostgresStore::open(&server.url()).unwrap();
    assert_eq!(accept(&store, "a", &batch("a", 3, 0, first)).unwrap(), Ok(taken(0, 300, 0, 0)));
    assert_eq!(accept(&store, "a", &batch("a", 3, 0, [(1, 2), (300, 1)])).unwrap(), Ok(taken(1, 0, 1, 0)));
    assert_eq!(accept(&store, "a", &batch("a", 3, 1, [(1, 2), (2, 2)])).unwrap(), Ok(taken(1, 1, 0, 0)));
    let totals = store.close(&lease, 1).unwrap();
    assert_eq!(counts(totals[0].as_ref().unwrap()), [0, 301, 0, 0, 0, 0, 0, 0]);
    assert_eq!(counts(totals[1].as_ref().unwrap()), [0, 0, 2, 0, 0, 0, 0, 0]);
    let again = PostgresStore::open(&server.url()).unwrap();
    assert_eq!(again.status("a").unwrap().1, 1);
}

const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/tls");

#[test]
fn connections_are_encrypted_and_verified() {
    let mut server = Postgres::start();
    let tls = |name: &str| Path::new(TLS).join(name);
    server.encrypt(&tls("certificate.pem"), &tls("key.pem"));
    let trusting = |authority: &str, host: &str| {
        let authority = tls(authority);
        let parameters = format!("hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={}", authority.display());
        PostgresStore::open(&server.encrypted_url(host, &parameters))
    };
    let store = trusting("authority.pem", "localhost").unwrap();
    let lease = begin(&store, "a", &[open(3, 0)]);
    accept(&store, "a", &batch("a", 3, 0, [(1, 1), (2, 1)])).unwrap().unwrap();
    assert_eq!(store.close(&lease, 1).unwrap()[0].as_ref().unwrap().reports(), 2);
    let mut client = postgres::Client::connect(&server.url(), postgres::NoTls).unwrap();
    let sql = "SELECT count(*) FILTER (WHERE ssl), count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
               WHERE application_name = 'tidegate'";
    let row = client.query_one(sql, &[]).unwrap();
    let (encrypted, all): (i64, i64) = (row.get(0), row.get(1));
    assert!(all > 0 && encrypted == all, "{encrypted} of {all}");
    // Another authority, another name, and no TLS are refused.
    for refused in [trusting("other-authority.pem", "localhost"), trusting("authority.pem", "db.example")] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("TLS") || error.contains("certificate"), "{error}");
    }
    assert!(PostgresStore::open(&server.encrypted_url("localhost", "")).is_err());
    assert!(
        PostgresStore::open(&server.encrypted_url("localhost", "sslmode=require")).is_err(),
        "the web's authorities"
    );
}

/// Its server ends nothing, and its sockets stay open: only the client can tell.
#[test]
fn a_database_that_hangs_is_given_up() {
    let server = Postgres::start();
    let options = PostgresOptions { patience: Duration::from_millis(300), longest: Duration::from_millis(500) };
    let store = PostgresStore::open_with(&server.url(), options).unwrap();
    store.check().unwrap();
    let hung = server.hang();
    let began = Instant::now();
    for _ in 0..2 {
        let error = store.check().unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    }
    let refused = PostgresStore::open_with(&server.url(), options).unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(hung);
    store.check().unwrap();
}
