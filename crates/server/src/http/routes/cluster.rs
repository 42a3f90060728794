//! Route for the state of the cluster: its processes, and how far its partitions are counted.

use axum::Json;
use axum::extract::State;
use serde_json::{Value as JsonValue, json};

use super::overview::seconds;
use super::records::unreadable;
use crate::http::auth::Role;
use crate::http::problem::{Answer, Problem};
use crate::http::request::Shared;
use crate::http::route::{Route, number, object};
use crate::store::postgres::cluster::Process;
use crate::store::{ClusterState, PartitionState};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/cluster", "cluster", "Processes and partitions of the cluster", cluster)
            .role(Role::Operator)
            .granted(200, object("Cluster"))
            .refused(&[404, 503]),
    ]
}

async fn cluster(State(app): Shared) -> Answer<Json<JsonValue>> {
    let state = app.blocking(|app| app.service.cluster()).await?.map_err(unreadable)?;
    let state = state.ok_or_else(Problem::no_cluster)?;
    let ClusterState { processes, partitions, problem } = state;
    let processes: Vec<JsonValue> = processes.iter().map(process_of).collect();
    let partitions: Vec<JsonValue> = partitions.iter().map(partition_of).collect();
    Ok(Json(json!({
        "now": seconds(), "processes": processes, "partitions": partitions, "log_problem": problem,
    })))
}

fn process_of(process: &Process) -> JsonValue {
    let figures: JsonValue = serde_json::from_str(&process.figures).unwrap_or_default();
    json!({
        "name": process.name, "role": process.role, "started": process.started / 1_000, "figures": figures,
    })
}

fn partition_of(state: &PartitionState) -> JsonValue {
    let partition = &state.partition;
    json!({
        "number": partition.number, "holder": partition.holder, "epoch": partition.epoch,
        "counted": partition.counted, "end": state.end, "lag": state.lag(),
    })
}

/// Schema of this route.
pub(in crate::http) fn schemas() -> JsonValue {
    let known = json!({ "type": ["integer", "null"] });
    json!({
        "Cluster": {
            "type": "object",
            "required": ["now", "processes", "partitions", "log_problem"],
            "properties": {
                "now": { "description": "Seconds since 1970.", "type": "number" },
                "processes": { "type": "array", "items": {
                    "type": "object",
                    "required": ["name", "role", "started", "figures"],
                    "properties": {
                        "name": { "type": "string" }, "role": { "enum": ["gateway", "worker", "driver"] },
                        "started": { "description": "Seconds since 1970.", "type": "integer" },
                        "figures": { "description": "Figures of the process, by name.", "type": ["object", "null"] },
                    },
                } },
                "partitions": { "type": "array", "items": {
                    "type": "object",
                    "required": ["number", "holder", "epoch", "counted", "end", "lag"],
                    "properties": {
                        "number": number(), "epoch": number(), "counted": number(),
                        "holder": { "description": "Worker that reads it.", "type": ["string", "null"] },
                        "end": known, "lag": known,
                    },
                } },
                "log_problem": { "description": "Why `end` is not known.", "type": ["string", "null"] },
            },
        },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::store::postgres::cluster::Partition;

    #[test]
    fn a_lag_is_the_number_of_records_that_are_not_counted() {
        let partition =
            Partition { number: 3, epoch: 2, holder: Some("w".to_owned()), until: 9, counted: 40, kept: 30 };
        let shown = partition_of(&PartitionState { partition: partition.clone(), end: Some(47) });
        assert_eq!((&shown["lag"], &shown["holder"], &shown["number"]), (&7.into(), &"w".into(), &3.into()));
        // The log of a follower may lag behind.
        assert_eq!(partition_of(&PartitionState { partition: partition.clone(), end: Some(39) })["lag"], 0);
        assert!(partition_of(&PartitionState { partition, end: None })["lag"].is_null());
    }

    #[test]
    fn figures_that_cannot_be_read_are_left_out() {
        let process = |figures: &str| Process {
            name: "a".to_owned(),
            role: "worker".to_owned(),
            started: 5_999,
            until: 9_000,
            figures: figures.to_owned(),
        };
        assert_eq!(process_of(&process(r#"{"counted":7}"#))["figures"]["counted"], 7);
        let shown = process_of(&process("{"));
        assert!(shown["figures"].is_null() && shown["started"] == 5);
    }
}
