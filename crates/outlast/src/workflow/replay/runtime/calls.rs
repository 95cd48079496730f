//! The calls that the code makes, and the waits that combine them.

use super::updates::Check;
use crate::machine::RetryPolicy;
use crate::workflow::FlowErrorKind;
use crate::workflow::replay::events::{CallKind, Ended, Failed, GroupPosition, Outline, Resolved};
use outlast_core::{EventKind, InstanceId, Json, NewInstance, Timestamp};
use smallvec::SmallVec;
use std::ops::Range;
use std::time::Duration;

/// A call that the code has made.
///
/// A run may have thousands of them, and thousands of runs may be in memory. So the fields of
/// children are boxed apart.
pub(in crate::workflow) struct IssuedCall {
    pub(in crate::workflow) kind: CallKind,
    /// Whether the history has it.
    pub(in crate::workflow) is_recorded: bool,
    /// The wait it was made with.
    pub(in crate::workflow) wait: u32,
    pub(in crate::workflow) name: String,
    pub(in crate::workflow) ask: Ask,
    pub(in crate::workflow) place: Option<Box<GroupPosition>>,
    /// When a timer is due, once that is known.
    pub(in crate::workflow) due: Option<Timestamp>,
    pub(in crate::workflow) end: Option<CallEnd>,
}

impl IssuedCall {
    /// Returns what is known of a child; empty for other calls.
    pub(in crate::workflow) fn link(&self) -> &Link {
        match &self.ask {
            Ask::Child(child) => &child.link,
            Ask::Work | Ask::Timer(_) | Ask::Signal | Ask::Update(_) | Ask::Nothing => &NO_LINK,
        }
    }

    pub(in crate::workflow) fn link_mut(&mut self) -> Option<&mut Link> {
        match &mut self.ask {
            Ask::Child(child) => Some(&mut child.link),
            Ask::Work | Ask::Timer(_) | Ask::Signal | Ask::Update(_) | Ask::Nothing => None,
        }
    }

    /// Returns the row of a child.
    pub(in crate::workflow) fn row(&self) -> Option<&NewInstance> {
        match &self.ask {
            Ask::Child(child) => Some(&child.row),
            Ask::Work | Ask::Timer(_) | Ask::Signal | Ask::Update(_) | Ask::Nothing => None,
        }
    }
}

/// A child to start.
pub(in crate::workflow) struct ChildStart {
    pub(in crate::workflow) row: NewInstance,
    pub(in crate::workflow) policy: Option<RetryPolicy>,
    pub(in crate::workflow) link: Link,
}

impl ChildStart {
    pub(in crate::workflow) fn new(row: NewInstance, policy: Option<RetryPolicy>) -> ChildStart {
        ChildStart {
            row,
            policy,
            link: Link::NONE,
        }
    }
}

/// What is known of a child.
pub(in crate::workflow) struct Link {
    /// The round it was started in, and its position there.
    pub(in crate::workflow) round: i32,
    pub(in crate::workflow) position: i32,
    /// The child as the history knows it. The code may see only this.
    pub(in crate::workflow) child: Option<InstanceId>,
    /// Its newest run in the history.
    pub(in crate::workflow) run: i32,
    /// The child as it was found in the store.
    pub(in crate::workflow) found: Option<InstanceId>,
    /// The waits that join it later, and its index among their calls.
    pub(in crate::workflow) joins: Vec<(u32, usize)>,
}

static NO_LINK: Link = Link::NONE;

impl Link {
    const NONE: Link = Link {
        round: 0,
        position: 0,
        child: None,
        run: 0,
        found: None,
        joins: Vec::new(),
    };
}

/// How a call ended.
pub(in crate::workflow) struct CallEnd {
    /// The index of the event that ended it, and its kind.
    pub(in crate::workflow) event: u32,
    pub(in crate::workflow) kind: EventKind,
    pub(in crate::workflow) answer: Answered,
}

pub(in crate::workflow) enum Answered {
    /// It succeeded with this result.
    Well(Json),
    /// It succeeded, and the result was moved to the code, which cannot ask for it again.
    Given,
    Step(Box<Failed>),
    Child(FlowErrorKind, Box<Ended>),
}

impl Answered {
    pub(in crate::workflow) fn is_bad(&self) -> bool {
        match self {
            Answered::Well(_) | Answered::Given => false,
            Answered::Step(_) | Answered::Child(..) => true,
        }
    }
}

/// The request of a call.
pub(in crate::workflow) enum Ask {
    /// Run code here.
    Work,
    Child(Box<ChildStart>),
    Timer(Duration),
    Signal,
    /// A signal that wants a reply, and the check that its payload fits.
    Update(Check),
    /// Nothing: a group, which only has members.
    Nothing,
}

/// Calls that the code awaits as one.
pub(in crate::workflow) struct AwaitedCalls {
    pub(in crate::workflow) kind: WaitKind,
    /// How many of its calls have not ended.
    pub(in crate::workflow) open: u32,
    /// The first of its calls that failed.
    pub(in crate::workflow) first_bad: Option<i32>,
    pub(in crate::workflow) leaves: SmallVec<[i32; 4]>,
    /// Only for groups and selections.
    pub(in crate::workflow) combinator: Option<Box<Combinator>>,
}

/// A group or a selection.
pub(in crate::workflow) struct Combinator {
    /// The call of the group itself.
    pub(in crate::workflow) call: i32,
    /// The index of the first call of each member of a selection; a group is one member.
    pub(in crate::workflow) members: Vec<usize>,
    /// The progress of each member of a selection.
    pub(in crate::workflow) progress: Vec<SelectionMember>,
    pub(in crate::workflow) window: Option<u32>,
    /// The calls, by index, that are cancelled if they still run when it is decided.
    pub(in crate::workflow) cancelled: Vec<Range<usize>>,
    /// How many groups it has, itself included.
    pub(in crate::workflow) groups: usize,
    pub(in crate::workflow) resolved: Option<Resolved>,
}

/// The progress of a member of a selection.
pub(in crate::workflow) struct SelectionMember {
    /// How many of its calls have not ended.
    pub(in crate::workflow) open: u32,
    /// The index of the event that decided it, and the failed call if there is one.
    pub(in crate::workflow) decided: Option<(u32, Option<i32>)>,
}

impl Combinator {
    /// Notes the end of a call. It decides its member if it is the last open call or has failed.
    pub(in crate::workflow) fn note_end(&mut self, index: usize, event: u32, bad: Option<i32>) {
        let member = self.members.partition_point(|begin| *begin <= index);
        let member = member
            .checked_sub(1)
            .and_then(|it| self.progress.get_mut(it));
        let Some(member) = member else {
            return;
        };
        member.open -= 1;
        if member.decided.is_none() && (bad.is_some() || member.open == 0) {
            member.decided = Some((event, bad));
        }
    }
}

impl AwaitedCalls {
    /// Returns the calls of each member.
    pub(in crate::workflow) fn members(&self) -> impl Iterator<Item = &[i32]> {
        let begins = match self.combinator.as_ref().map(|it| &it.members[..]) {
            None | Some([]) => &[0],
            Some(begins) => begins,
        };
        let ends = begins[1..].iter().copied().chain([self.leaves.len()]);
        let members = begins.iter().zip(ends);
        members.map(|(&begin, end)| &self.leaves[begin..end])
    }

    /// Returns the outline of a group or a selection.
    pub(in crate::workflow) fn outline(&self) -> Outline {
        let groups = self.combinator.as_ref().map_or(0, |it| it.groups);
        Outline::of(self.members(), groups)
    }

    /// Returns how a group or a selection was decided.
    pub(in crate::workflow) fn resolved(&self) -> Option<&Resolved> {
        self.combinator.as_ref().and_then(|it| it.resolved.as_ref())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workflow) enum WaitKind {
    Single,
    Group,
    Selection,
    /// A child that is started and not awaited.
    Launch,
}

/// One entry of a wait.
pub(in crate::workflow) enum WaitCall {
    /// A call to register.
    New(NewCall),
    /// A child that was started before.
    Again(i32),
}

/// A call to register.
pub(in crate::workflow) struct NewCall {
    pub(in crate::workflow) kind: CallKind,
    pub(in crate::workflow) name: String,
    pub(in crate::workflow) ask: Ask,
    /// The groups it is in, by the order in which they were added: 0 is the outermost.
    pub(in crate::workflow) groups: Vec<usize>,
}
