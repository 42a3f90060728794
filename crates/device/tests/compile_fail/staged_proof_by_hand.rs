use tidegate_device::AgentReply;
use tidegate_device::staged::{Confirmed, NotSaved, Saved, Staged};

fn confirm(staged: Staged<AgentReply>) -> Result<Confirmed<AgentReply>, NotSaved> {
    let version = staged.save().version;
    staged.confirm(Saved(version))
}

fn main() {}
