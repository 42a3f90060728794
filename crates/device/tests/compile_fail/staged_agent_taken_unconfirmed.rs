use tidegate_device::AgentReply;
use tidegate_device::staged::{Confirmed, Staged, StagedAgent};

fn agent_of(staged: Staged<AgentReply>) -> StagedAgent {
    let Confirmed { agent, .. } = staged.into();
    agent
}

fn main() {}
