//! `tidegate device`: a device that answers a collector, or a simulated fleet.
//!
//! | module | content |
//! | --- | --- |
//! | `connection` | the connection to a collector, and the operator's key |
//! | `polling` | waits for open questions |
//! | `one` | a real device, with its ledger on disk |
//! | `values` | the source of its values |
//! | `fleet` | a simulated fleet |
//! | `drawing` | credentials and tokens of the fleet's devices |
//! | `population` | the fleet's devices, and the value of each at a timestamp |

mod ahead;
pub(crate) mod connection;
#[cfg(feature = "lab")]
mod drawing;
#[cfg(feature = "lab")]
pub(crate) mod fleet;
mod one;
mod polling;
#[cfg(feature = "lab")]
mod population;
mod values;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Run a device that answers a collector within its own ledger, or simulate a fleet of them.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  tidegate device run --server https://collector.example --stream visits --operator-key \
                  operator.pub --state state --source position --value shop\n  \
                  tidegate device fleet --server http://127.0.0.1:8420 --stream visits --operator-key operator.pub \
                  --devices 100000"
)]
pub(crate) struct Device {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    Run(one::One),
    #[cfg(feature = "lab")]
    Fleet(fleet::Fleet),
}

impl Device {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.kind {
            Kind::Run(one) => one.run(),
            #[cfg(feature = "lab")]
            Kind::Fleet(fleet) => fleet.run(),
        }
    }
}
