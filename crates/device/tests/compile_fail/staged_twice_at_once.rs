use tidegate_device::clock::ClockReading;
use tidegate_device::staged::StagedAgent;
use tidegate_kernel::SystemRandom;

fn two_outstanding(agent: StagedAgent, now: ClockReading, random: &mut SystemRandom) {
    let _first = agent.draw(now, random);
    let _second = agent.draw(now, random);
}

fn main() {}
