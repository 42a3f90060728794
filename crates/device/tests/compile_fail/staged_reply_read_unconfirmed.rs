use tidegate_device::AgentReply;
use tidegate_device::staged::Staged;

fn reply_of(staged: Staged<AgentReply>) -> AgentReply {
    staged.reply
}

fn main() {}
