//! [`Register`]: the registry of a stream's users, of the stores in memory.

use std::collections::BTreeMap;

use tidegate::central::membership::Membership;
use tidegate_server::store::{Member, MemberChanges, MemberFilter, MemberPage};

#[derive(Clone, Debug, Default)]
pub(crate) struct Register {
    members: BTreeMap<String, Member>,
    changes: u64,
    forgotten: u64,
    /// Whether users who move count in their new class at once, which breaks what their old one promises.
    moves_at_once: bool,
}

impl Register {
    pub(crate) fn new(moves_at_once: bool) -> Self {
        Self { moves_at_once, ..Self::default() }
    }

    pub(crate) fn change(&mut self, changes: &MemberChanges<'_>) {
        let is_over = |member: &Member| {
            member.membership.forgotten_at(changes.classes).is_some_and(|end| end <= changes.forgets_to())
        };
        let over = self.members.values().filter(|member| is_over(member)).map(|member| member.number);
        self.forgotten = over.max().unwrap_or(0).max(self.forgotten);
        self.members.retain(|_, member| !is_over(member));
        for (user, class) in changes.requests {
            let old = self.members.get(user).map(|member| member.membership);
            let before = if self.moves_at_once { Membership::default() } else { old.unwrap_or_default() };
            let membership = before.changed(changes.classes, *class, changes.next).unwrap();
            let wished = |membership: &Membership| membership.wanted().map(|(class, _)| class);
            if old.as_ref().and_then(wished) == *class {
                continue;
            }
            self.changes += 1;
            self.members.insert(user.clone(), Member { number: self.changes, user: user.clone(), membership });
        }
    }

    /// Whether a step that knows the registry up to a change may be stored.
    pub(crate) fn is_known(&self, change: Option<u64>) -> bool {
        change.is_none_or(|change| change == self.changes)
    }

    pub(crate) fn page(&self, filter: MemberFilter<'_>) -> MemberPage {
        let members = match filter {
            MemberFilter::User(user) => self.members.get(user).cloned().into_iter().collect(),
            MemberFilter::After(number, limit) => {
                let mut members: Vec<_> =
                    self.members.values().filter(|member| member.number > number).cloned().collect();
                members.sort_by_key(|member| member.number);
                members.truncate(limit);
                members
            }
        };
        MemberPage { users: self.members.len() as u64, forgotten: self.forgotten, members }
    }
}
