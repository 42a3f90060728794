//! The native part of the Python package `tidegate`: see `README.md` beside it for its conventions.

mod arrow;
mod budget;
mod columns;
mod cores;
mod curves;
mod device;
mod error;
mod lab;
mod ledger;
mod local;
mod model;
mod oracles;
mod published;
mod queries;
mod records;
mod releases;
mod stream;
mod work;

use pyo3::prelude::*;

/// The native part of tidegate. Its classes and functions are those of the package `tidegate`, which documents them.
#[pymodule]
mod _tidegate {
    #[pymodule_export]
    use crate::budget::Budget;
    #[pymodule_export]
    use crate::curves::{curves, truth_of};
    #[pymodule_export]
    use crate::device::{Device, public_key, sign_policy};
    #[pymodule_export]
    use crate::lab::{
        Dataset, Report, ask_advice, datasets, experiments, load_dataset, reproduce, run_audit, run_evaluation,
    };
    #[pymodule_export]
    use crate::ledger::Ledger;
    #[pymodule_export]
    use crate::local::{answer_questions, open_questions, open_timestamp};
    #[pymodule_export]
    use crate::model::{Model, channel, fit_model};
    #[pymodule_export]
    use crate::oracles::{Aggregate, Oracle};
    #[pymodule_export]
    use crate::published::{next_page, published};
    #[pymodule_export]
    use crate::queries::{query_releases, watch_releases};
    #[pymodule_export]
    use crate::records::Records;
    #[pymodule_export]
    use crate::releases::Releases;
    #[pymodule_export]
    use crate::stream::{Stream, mechanisms};
}
