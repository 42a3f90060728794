use tidegate_device::staged::StagedAgent;

fn two_ledgers(agent: &StagedAgent) -> [StagedAgent; 1] {
    [agent.clone()]
}

fn main() {}
