//! One table of facts and the expected sentences.

use super::*;
use crate::workflow::{GroupPlace, GroupWait};
use outlast_core::{ClosePolicy, Count, Json, MachineOffer, Revision};
use std::time::Duration;

/// 2026-01-01 15:00:00 UTC.
const NOW: Timestamp = Timestamp(1_767_279_600_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn instance(status: Status) -> Instance {
    Instance {
        id: InstanceId(7),
        machine: "checkout".into(),
        version: 2,
        step: "charge".into(),
        state: Json::null(),
        status,
        revision: Revision(3),
        entered: Revision(2),
        trace: None,
        result: None,
        last_error: None,
        queue: "default".into(),
        priority: 0,
        eligible_at: NOW - SECOND * 5,
        attempt: 0,
        crashes: 0,
        partition_key: None,
        locked_by: None,
        awaits: None,
        await_deadline: None,
        needs_all: false,
        parent: None,
        position: None,
        on_parent_close: ClosePolicy::Abandon,
        held: None,
        cancel: None,
        round: 1,
        run: 1,
        events: 0,
        joining: None,
        children_pending: 0,
        barrier: None,
        dropped: Vec::new(),
        correlation_key: None,
        correlation_scope: None,
        holds_key: false,
        timeout_at: None,
        run_timeout_at: None,
        inserted_at: NOW - SECOND * 60,
        updated_at: NOW - SECOND * 3,
        finished_at: None,
    }
}

fn worker(machine: &str, steps: &[&str]) -> Worker {
    Worker {
        id: WorkerId(1),
        name: "web-1".into(),
        host: "host".into(),
        version: "1".into(),
        queues: vec!["default".into()],
        machines: vec![MachineOffer {
            name: machine.into(),
            version: 2,
            queue: "default".into(),
            steps: steps.iter().map(|step| (*step).into()).collect(),
        }],
        started_at: NOW - SECOND * 60,
        heartbeat_at: NOW - SECOND * 3,
        lease_expires_at: NOW + SECOND * 27,
    }
}

fn with(workers: Vec<Worker>) -> InstanceFacts {
    InstanceFacts {
        workers,
        ..InstanceFacts::at(NOW)
    }
}

fn able() -> Worker {
    worker("checkout", &["charge"])
}

#[track_caller]
fn says(instance: &Instance, around: &InstanceFacts, expected: &str) {
    assert_eq!(sentence(instance, around), expected);
}

#[test]
fn an_instance_with_a_timeout_says_when_it_fails() {
    let waits = |timeout_at: Option<Timestamp>, run_timeout_at| Instance {
        awaits: Some(vec!["paid".into()]),
        timeout_at,
        run_timeout_at,
        ..instance(Status::AwaitingSignal)
    };
    let (soon, later) = (NOW + SECOND * 725, NOW + SECOND * 3_600);
    let until_soon = "waits for signal paid, without a deadline; \
                      it fails as timed out at 15:12:05 UTC (in 12 min)";
    let around = InstanceFacts::at(NOW);
    says(&waits(Some(soon), None), &around, until_soon);
    says(&waits(Some(later), Some(soon)), &around, until_soon);
    says(
        &waits(Some(NOW - SECOND * 3), None),
        &around,
        "waits for signal paid, without a deadline; \
         it fails as timed out now: its time was up 3 s ago",
    );
    let ended = Instance {
        finished_at: Some(NOW),
        ..waits(Some(later), None)
    };
    let ended = Instance {
        status: Status::Done,
        ..ended
    };
    assert!(!sentence(&ended, &around).contains("timed out"));
}

#[test]
fn a_wait_that_needs_all_says_what_is_missing() {
    let parked = |names: &[&str], seconds: Option<i64>| Instance {
        awaits: Some(names.iter().map(|name| (*name).into()).collect()),
        await_deadline: seconds.map(|seconds| Timestamp(NOW.0 + seconds * 1_000_000)),
        needs_all: true,
        ..instance(Status::AwaitingSignal)
    };
    for (parked, expected) in [
        (
            parked(&["paid", "packed"], Some(725)),
            "waits for signal paid and packed, and until 15:12:05 UTC (in 12 min)",
        ),
        (
            parked(&["paid"], None),
            "waits for signal paid, without a deadline",
        ),
        (parked(&[], Some(40)), "sleeps until 15:00:40 UTC (in 40 s)"),
    ] {
        says(&parked, &InstanceFacts::at(NOW), expected);
    }
}

#[test]
fn a_wait_for_signals_says_which_and_until_when() {
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).into()).collect());
    let deadline = |seconds: i64| Some(Timestamp(NOW.0 + seconds * 1_000_000));
    for (awaits, await_deadline, expected) in [
        (
            names(&["payment_confirmed"]),
            deadline(725),
            "waits for signal payment_confirmed until 15:12:05 UTC (in 12 min)",
        ),
        (
            names(&["paid", "refused", "expired"]),
            deadline(86_400),
            "waits for signal paid, refused or expired until 2026-01-02 15:00:00 UTC (in 24 h)",
        ),
        (
            names(&["paid"]),
            None,
            "waits for signal paid, without a deadline",
        ),
        (
            names(&["paid"]),
            deadline(-3),
            "waits for signal paid until 14:59:57 UTC, which was 3 s ago: the timers wake it",
        ),
    ] {
        let parked = Instance {
            awaits,
            await_deadline,
            ..instance(Status::AwaitingSignal)
        };
        says(&parked, &InstanceFacts::at(NOW), expected);
    }
}

#[test]
fn a_sleep_says_until_when() {
    for awaits in [None, Some(Vec::new())] {
        let asleep = Instance {
            awaits,
            await_deadline: Some(NOW + SECOND * 40),
            ..instance(Status::Sleeping)
        };
        let expected = "sleeps until 15:00:40 UTC (in 40 s)";
        says(&asleep, &InstanceFacts::at(NOW), expected);
    }
}

#[test]
fn a_join_says_how_many_children_are_missing_and_how_many_failed() {
    use Status::{AwaitingSignal, Cancelled, Done, Failed};
    for (children_pending, children, expected) in [
        (
            13,
            vec![(AwaitingSignal, 13), (Done, 35), (Failed, 2)],
            "waits for 13 of 50 children, 2 have failed",
        ),
        (1, vec![(AwaitingSignal, 1)], "waits for its child"),
        (
            3,
            vec![(AwaitingSignal, 3)],
            "waits for all of its 3 children",
        ),
        (
            1,
            vec![(AwaitingSignal, 1), (Failed, 1), (Cancelled, 2)],
            "waits for 1 of 4 children, 1 has failed, 2 have been cancelled",
        ),
        (4, vec![], "waits for all of its 4 children"),
    ] {
        let joining = Instance {
            children_pending,
            ..instance(Status::AwaitingChildren)
        };
        let around = InstanceFacts {
            round: Some(RoundSummary { round: 1, children }),
            ..InstanceFacts::at(NOW)
        };
        says(&joining, &around, expected);
    }
}

#[test]
fn a_due_instance_says_why_it_does_not_run() {
    let due = instance(Status::Runnable);
    let paused = InstanceFacts {
        queue: Some(QueueSummary {
            name: "default".into(),
            paused: true,
            eligible: Count::Exactly(1),
            delayed: Count::Exactly(0),
            executing: Count::Exactly(0),
            oldest_eligible_at: None,
        }),
        ..with(vec![able()])
    };
    let dead = Worker {
        lease_expires_at: NOW,
        ..able()
    };
    let elsewhere = Worker {
        queues: vec!["mail".into()],
        ..able()
    };
    let silent = Worker {
        machines: Vec::new(),
        ..able()
    };
    let behind = |ahead| InstanceFacts {
        ahead: Some(ahead),
        ..with(vec![able()])
    };
    for (around, expected) in [
        (paused, "waits in queue default, which is paused"),
        (
            with(vec![]),
            "is due in queue default, and no live worker serves that queue",
        ),
        (
            with(vec![dead, elsewhere]),
            "is due in queue default, and no live worker serves that queue",
        ),
        (
            with(vec![worker("mailer", &["charge"])]),
            "is due in queue default, and no live worker there has machine checkout version 2",
        ),
        (
            with(vec![worker("checkout", &["ship"])]),
            "is due in queue default, and no live worker there knows step charge of machine checkout version 2",
        ),
        (
            behind(Ahead::Runs(InstanceId(17))),
            "waits behind instance 17, which has the same partition key and runs",
        ),
        (
            behind(Ahead::IsFirst(InstanceId(17))),
            "waits behind instance 17, which has the same partition key and goes first",
        ),
        (
            behind(Ahead::Line),
            "waits in a long line of instances with the same partition key",
        ),
        (
            with(vec![able()]),
            "is due in queue default since 5 s; 1 live worker serves that queue",
        ),
        (
            with(vec![able(), silent]),
            "is due in queue default since 5 s; 2 live workers serve that queue",
        ),
    ] {
        says(&due, &around, expected);
    }
}

#[test]
fn a_delayed_instance_says_when_it_runs_and_its_last_error() {
    let later = Instance {
        eligible_at: NOW + SECOND * 40,
        ..instance(Status::Runnable)
    };
    let around = InstanceFacts::at(NOW);
    says(
        &later,
        &around,
        "runs step charge at 15:00:40 UTC (in 40 s)",
    );
    let again = Instance {
        attempt: 2,
        ..later
    };
    says(
        &again,
        &around,
        "runs step charge again in 40 s (attempt 3)",
    );
    let failing = Instance {
        last_error: Some("card declined\nby the bank".into()),
        ..again
    };
    says(
        &failing,
        &around,
        "retries step charge in 40 s (attempt 3): last error card declined…",
    );
}

#[test]
fn a_delayed_instance_says_that_no_live_worker_can_run_it() {
    let later = Instance {
        eligible_at: NOW + SECOND * 40,
        ..instance(Status::Runnable)
    };
    let when = "runs step charge at 15:00:40 UTC (in 40 s)";
    for (worker, missing) in [
        (able(), ""),
        (
            worker("checkout", &["ship"]),
            "; no live worker of queue default knows step charge of machine checkout version 2",
        ),
        (
            worker("order", &["charge"]),
            "; no live worker of queue default has machine checkout version 2",
        ),
    ] {
        says(&later, &with(vec![worker]), &format!("{when}{missing}"));
    }
}

#[test]
fn a_running_instance_names_its_worker_and_the_end_of_its_lease() {
    let running = Instance {
        locked_by: Some(WorkerId(1)),
        ..instance(Status::Executing)
    };
    says(
        &running,
        &with(vec![able()]),
        "runs step charge on worker web-1 (since 3 s; lease ends in 27 s)",
    );
    let expired = Worker {
        lease_expires_at: NOW - SECOND * 120,
        ..able()
    };
    says(
        &running,
        &with(vec![expired]),
        "runs step charge on worker web-1, whose lease ended 2 min ago; the reaper gives it back",
    );
    says(
        &running,
        &with(vec![]),
        "runs step charge on worker 1, which is not registered any more",
    );
}

#[test]
fn an_ended_instance_says_when_and_why_it_ended() {
    let at = Some(NOW - SECOND * 180);
    let done = Instance {
        finished_at: at,
        last_error: Some("an earlier one".into()),
        ..instance(Status::Done)
    };
    says(&done, &InstanceFacts::at(NOW), "done 3 min ago");
    let failed = Instance {
        status: Status::Failed,
        last_error: Some("x".repeat(500)),
        ..done
    };
    let expected = format!(
        "failed 3 min ago at step charge: {}…",
        "x".repeat(ERROR_CHARS_MAX)
    );
    says(&failed, &InstanceFacts::at(NOW), &expected);
    let cancelled = Instance {
        status: Status::Cancelled,
        last_error: None,
        ..failed
    };
    says(&cancelled, &InstanceFacts::at(NOW), "cancelled 3 min ago");
}

#[test]
fn a_join_says_what_wakes_its_parent_and_until_when() {
    let barrier = |until, started, failed| {
        Some(Barrier {
            until,
            window: None,
            rest: ClosePolicy::Abandon,
            started,
            failed,
            first_failure: None,
            joined: None,
        })
    };
    for (barrier, pending, seconds, expected) in [
        (
            barrier(Until::Quorum(2), 5, 1),
            3,
            Some(725),
            "waits for 2 of 5 children to be done, 1 done, 1 failed or cancelled, until 15:12:05 UTC (in 12 min)",
        ),
        (
            barrier(Until::Quorum(1), 3, 0),
            3,
            None,
            "waits for one of 3 children to be done",
        ),
        (
            barrier(Until::FailFast, 4, 0),
            4,
            None,
            "waits for all of its 4 children, or for the first that ends badly",
        ),
        (
            barrier(Until::All, 4, 0),
            4,
            Some(40),
            "waits for all of its 4 children, until 15:00:40 UTC (in 40 s)",
        ),
    ] {
        let joins = Instance {
            barrier,
            children_pending: pending,
            await_deadline: seconds.map(|seconds: i64| Timestamp(NOW.0 + seconds * 1_000_000)),
            ..instance(Status::AwaitingChildren)
        };
        says(&joins, &InstanceFacts::at(NOW), expected);
    }
}

#[test]
fn a_held_child_says_how_wide_its_window_is() {
    let held = Instance {
        held: Some(true),
        ..instance(Status::Runnable)
    };
    for (window, expected) in [
        (
            Some(50),
            "waits for a place among the 50 of its round that run at a time",
        ),
        (
            Some(1),
            "waits for its turn among the children of its round, which run one at a time",
        ),
        (
            None,
            "waits for a place among those of its round that run at a time",
        ),
    ] {
        let around = InstanceFacts {
            window,
            ..InstanceFacts::at(NOW)
        };
        says(&held, &around, expected);
    }
}

#[test]
fn an_instance_that_was_asked_to_end_says_by_whom_and_who_decides() {
    let asked = |status, answered| Instance {
        cancel: Some(CancelRequest {
            reason: "cancelled by ada: ordered twice".into(),
            requested_at: NOW - SECOND * 3,
            answered,
        }),
        locked_by: Some(WorkerId(1)),
        finished_at: Some(NOW - SECOND),
        ..instance(status)
    };
    for (status, answered, expected) in [
        (
            Status::Runnable,
            false,
            "was asked to end 3 s ago (cancelled by ada: ordered twice); its machine decides when it is claimed: it is due \
             in queue default since 5 s; 1 live worker serves that queue",
        ),
        (
            Status::Executing,
            false,
            "runs step charge on worker web-1 (since 3 s; lease ends in 27 s); it was asked to end 3 s ago (cancelled by \
             ada: ordered twice), and its machine decides now or after this step",
        ),
        (
            Status::Executing,
            true,
            "does what its machine decided about the cancel (cancelled by ada: ordered twice): it runs step charge on \
             worker web-1 (since 3 s; lease ends in 27 s)",
        ),
        (Status::Done, true, "done 1 s ago"),
    ] {
        says(&asked(status, answered), &with(vec![able()]), expected);
    }
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (days, expected) in [
        (0, (1970, 1, 1)),
        (-1, (1969, 12, 31)),
        (59, (1970, 3, 1)),
        (11_016, (2000, 2, 29)),
        (11_017, (2000, 3, 1)),
        (20_454, (2026, 1, 1)),
        (20_818, (2026, 12, 31)),
        (47_540, (2100, 2, 28)),
        (47_541, (2100, 3, 1)),
        (-719_162, (1, 1, 1)),
    ] {
        assert_eq!(date(days), expected, "{days}");
    }
}

fn workflow(status: Status) -> Instance {
    Instance {
        step: "run".into(),
        events: 12,
        ..instance(status)
    }
}

fn wait(kind: &'static str, call: i32, name: &str) -> OpenWait {
    OpenWait {
        kind,
        call,
        name: name.into(),
        since: NOW - SECOND * 5,
        deadline: None,
        started: None,
        child: None,
        child_run: None,
        child_status: None,
        is_held: None,
        on_parent_close: None,
        group: None,
        is_awaited: true,
    }
}

fn child(kind: &'static str, call: i32, name: &str, id: i64) -> OpenWait {
    OpenWait {
        started: Some((1, call)),
        child: Some(InstanceId(id)),
        ..wait(kind, call, name)
    }
}

fn timer(call: i32, seconds: i64) -> OpenWait {
    OpenWait {
        deadline: Some(Timestamp(NOW.0 + seconds * 1_000_000)),
        ..wait("timer", call, "")
    }
}

/// Turns calls into members of a group of this size.
fn within(path: &[i32], size: usize, is_selection: bool, waits: Vec<OpenWait>) -> Vec<OpenWait> {
    let place = |index| GroupPlace {
        path: path.to_vec(),
        size,
        index,
        is_selection,
        members: Some("mixed"),
    };
    let placed = waits.into_iter().enumerate().map(|(index, it)| OpenWait {
        group: Some(place(index)),
        ..it
    });
    placed.collect()
}

fn group(call: i32, size: usize, open: usize) -> GroupWait {
    GroupWait {
        call,
        is_selection: false,
        members: "mixed",
        size,
        open,
        deadline: None,
        window: None,
    }
}

fn selection(call: i32, size: usize, open: usize) -> GroupWait {
    GroupWait {
        is_selection: true,
        ..group(call, size, open)
    }
}

#[test]
fn a_workflow_says_what_it_waits_for_by_kind_name_and_call() {
    let approved = || wait("signal", 5, "approved");
    let many = (0..46).map(|call| child("activity", call, "pack", 100 + i64::from(call)));
    let many: Vec<_> = many.collect();
    let inner = within(&[4, 5], 47, true, many.clone());
    let until = within(&[4], 47, true, vec![timer(60, 40)]);
    for (open, groups, expected) in [
        (
            vec![child("child", 3, "label", 43)],
            vec![],
            "waits for child label 43 (call 3)",
        ),
        (
            vec![approved()],
            vec![],
            "waits for signal approved (call 5)",
        ),
        (
            vec![timer(9, 40)],
            vec![],
            "sleeps (call 9) until 15:00:40 UTC (in 40 s)",
        ),
        (
            within(&[4], 2, true, vec![approved(), timer(6, 725)]),
            vec![selection(4, 2, 2)],
            "waits for signal approved (call 5) until 15:12:05 UTC (in 12 min)",
        ),
        (
            within(
                &[2],
                2,
                true,
                vec![approved(), child("child", 6, "label", 43)],
            ),
            vec![selection(2, 2, 2)],
            "waits for signal approved (call 5) or child label 43 (call 6)",
        ),
        (
            within(
                &[2],
                50,
                false,
                vec![child("activity", 3, "pack", 44), timer(4, 40)],
            ),
            vec![group(2, 50, 2)],
            "waits for 2 of 50 calls of a group (call 2): activity pack 44 (call 3) and a timer (call 4) until 15:00:40 UTC \
             (in 40 s)",
        ),
        (
            within(&[2], 50, false, many),
            vec![group(2, 50, 46)],
            "waits for 46 of 50 calls of a group (call 2)",
        ),
        (
            inner.into_iter().chain(until).collect(),
            vec![selection(4, 47, 47)],
            "waits for 46 open calls of a group until 15:00:40 UTC (in 40 s)",
        ),
        (
            vec![child("child", 3, "label", 43), approved()],
            vec![],
            "waits for child label 43 (call 3) and signal approved (call 5)",
        ),
    ] {
        let around = InstanceFacts {
            waits: Some(Waits {
                open,
                groups,
                is_whole: true,
                ..Waits::default()
            }),
            ..InstanceFacts::at(NOW)
        };
        says(&workflow(Status::AwaitingChildren), &around, expected);
    }
}

#[test]
fn a_workflow_whose_history_shows_no_wait_is_explained_by_its_row() {
    let parked = Instance {
        awaits: Some(vec!["approved".into()]),
        ..workflow(Status::AwaitingSignal)
    };
    let nothing = InstanceFacts {
        waits: Some(Waits::default()),
        ..InstanceFacts::at(NOW)
    };
    says(
        &parked,
        &nothing,
        "waits for signal approved, without a deadline",
    );
    let cut = InstanceFacts {
        waits: Some(Waits {
            open: vec![wait("signal", 5, "approved")],
            ..Waits::default()
        }),
        ..InstanceFacts::at(NOW)
    };
    says(
        &parked,
        &cut,
        "waits for signal approved (call 5); only a part of its history and children was looked at",
    );
}

#[test]
fn a_blocked_workflow_shows_both_sides_and_when_it_is_tried_again() {
    let blocked = Waits {
        blocked: Some(Blocked {
            expected: "call 2, activity \"pack\"".into(),
            found: "call 2, step \"weigh\"".into(),
            since: NOW - SECOND * 60,
        }),
        is_whole: true,
        ..Waits::default()
    };
    let around = InstanceFacts {
        waits: Some(blocked),
        ..with(vec![able()])
    };
    let later = Instance {
        attempt: 2,
        eligible_at: NOW + SECOND * 40,
        ..workflow(Status::Runnable)
    };
    says(
        &later,
        &around,
        "is blocked: its history has call 2, activity \"pack\", and the code has call 2, step \"weigh\"; it is tried again in \
         40 s (attempt 3), by another build perhaps",
    );
}

#[test]
fn the_one_step_of_a_workflow_is_not_named() {
    let around = with(vec![able()]);
    let running = Instance {
        locked_by: Some(WorkerId(1)),
        ..workflow(Status::Executing)
    };
    says(
        &running,
        &around,
        "runs on worker web-1 (since 3 s; lease ends in 27 s)",
    );
    let failed = Instance {
        run: 3,
        finished_at: Some(NOW - SECOND * 180),
        last_error: Some("nobody approved".into()),
        ..workflow(Status::Failed)
    };
    says(
        &failed,
        &around,
        "failed 3 min ago in run 3: nobody approved",
    );
}
