//! Updates: signals that want a reply, and the replies that commits write (I7).

use crate::Subject;
use crate::vocabulary::*;
use outlast_core::{
    Answer, Claim, CollectRequest, Commit, DeleteAnswer, Delivery, ErrorKind, Extent, InstanceId,
    Json, KeyText, NewReply, NewSignal, Outcome, Reply, ReplyKind, RetryAnswer, SentUpdate,
    SignalId, Status, UpdateState, limits,
};

/// An update with this id, of the name `ask`.
fn update(target: InstanceId, id: &str) -> NewSignal {
    signal(target, "ask").update(id)
}

fn reply(signal: SignalId, data: &str) -> NewReply {
    NewReply {
        signal,
        kind: ReplyKind::Done,
        data: json(data),
    }
}

fn replying(claim: &Claim, outcome: Outcome, replies: Vec<NewReply>) -> Commit {
    Commit {
        replies,
        ..commit_of(claim, outcome)
    }
}

/// A commit of a step that received nothing.
fn replying_unread(claim: &Claim, outcome: Outcome, replies: Vec<NewReply>) -> Commit {
    Commit {
        received: Vec::new(),
        ..replying(claim, outcome, replies)
    }
}

impl Subject {
    async fn update_of(&self, id: InstanceId, update: &str) -> Option<SentUpdate> {
        self.store.update(id, update).await.unwrap()
    }

    /// Returns the state of an update that is stored, in a word. A reply is its kind and data.
    async fn standing(&self, id: InstanceId, update: &str) -> String {
        let found = self.update_of(id, update).await;
        match found.expect("the update is stored").state {
            UpdateState::Pending => "pending".into(),
            UpdateState::Replied(reply) => {
                format!("{} {}", reply.kind.as_str(), reply.data.as_str())
            }
            UpdateState::Ended => "ended".into(),
        }
    }

    /// Sends an update that must arrive.
    async fn sends(&self, target: InstanceId, id: &str) -> SignalId {
        self.arrives(update(target, id)).await.0
    }

    /// Commits an outcome with replies that must be written. Returns the new status.
    async fn reply(&self, commit: Commit) -> Status {
        let id = commit.claim.id;
        match self.commit_all(vec![commit]).await.answers.remove(0) {
            Answer::Committed { status, .. } => status,
            answer @ (Answer::Cancel(_) | Answer::Lost | Answer::Rejected(_)) => {
                panic!("the outcome of {id} was not committed: {answer:?}")
            }
        }
    }

    async fn retry(&self, ids: Vec<InstanceId>) -> Vec<RetryAnswer> {
        self.store.retry(ids, note()).await.unwrap().answers
    }
}

pub async fn an_update_wakes_its_target_like_any_signal(subject: &Subject) {
    let (worker, id) = subject.parked(&["ask"]).await;
    subject.arrives(signal(id, "other").dedup_key("d")).await;
    let (sent, woke) = subject.arrives(update(id, "u")).await;
    assert!(woke);
    let claim = subject.claim_the(worker, id).await;
    let [plain, asked] = &claim.inbox[..] else {
        panic!("{:?}", claim.inbox);
    };
    assert!(!plain.wants_reply);
    assert!(asked.wants_reply);
    assert_eq!(asked.dedup_key.as_deref(), Some("u"));
    assert_eq!(
        (asked.id, asked.name.as_str(), &asked.payload),
        (sent, "ask", &json(r#"{"v":1}"#))
    );
    let listed = subject.signals(id).await;
    let wanted: Vec<bool> = listed.iter().map(|row| row.wants_reply).collect();
    assert_eq!(wanted, [false, true]);
}

/// A claim at the delivery, and the verb `inbox`, are read by other statements.
pub async fn every_way_to_read_an_inbox_shows_which_signals_want_a_reply(subject: &Subject) {
    let (worker, id) = subject.parked(&["ask"]).await;
    let signals = vec![update(id, "u-1"), signal(id, "x").dedup_key("d")];
    let claim = subject.deliver_for(worker, signals).await.claims.remove(0);
    let wanted = |inbox: &[outlast_core::Signal]| -> Vec<bool> {
        inbox.iter().map(|signal| signal.wants_reply).collect()
    };
    assert_eq!(wanted(&claim.inbox), [true, false]);
    let last = subject.sends(id, "u-2").await;
    let answer = subject.try_commit(&claim, again(seconds(0))).await;
    assert!(matches!(answer, Answer::Committed { .. }));
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(wanted(&claim.inbox), [true, false, true]);
    // A kept claim is told of it, and reads it.
    let newest = subject.sends(id, "u-3").await;
    let answer = subject.try_commit(&claim, keep("next")).await;
    let Answer::Committed { latest_signal, .. } = answer else {
        panic!("{answer:?}");
    };
    assert!(newest > last);
    assert_eq!(latest_signal, Some(newest));
    let inbox = subject.store.inbox(kept(&claim).reference()).await.unwrap();
    let inbox = inbox.expect("the claim is held");
    assert_eq!(wanted(&inbox), [false, true], "what was not received");
}

pub async fn an_update_without_an_id_is_refused(subject: &Subject) {
    let (_, id) = subject.parked(&["ask"]).await;
    let nameless = NewSignal {
        dedup_key: None,
        ..update(id, "u")
    };
    let refused = nameless.check().unwrap_err().to_string();
    assert!(refused.contains("no id"), "{refused}");
    let error = subject.store.deliver(vec![nameless], None).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(subject.signals(id).await, []);
    for bad in ["", "a\0b", &"x".repeat(limits::KEY_BYTES_MAX + 1)] {
        let error = subject.store.update(id, bad).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{bad:?}");
    }
}

pub async fn an_update_is_pending_until_it_is_answered(subject: &Subject) {
    let (worker, id) = subject.parked(&["ask"]).await;
    let sent = subject.sends(id, "u").await;
    assert_eq!(subject.standing(id, "u").await, "pending");
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(subject.standing(id, "u").await, "pending");
    // The step consumes it, and answers later.
    subject.commit(&claim, keep("next")).await;
    assert_eq!(subject.inbox(id).await, [""; 0]);
    assert_eq!(subject.standing(id, "u").await, "pending");
    let claim = kept(&claim);
    let replies = vec![reply(sent, "1")];
    let replied = replying_unread(&claim, keep("last"), replies);
    subject.reply(replied).await;
    assert_eq!(subject.standing(id, "u").await, "done 1");
}

pub async fn a_reply_is_read_back_with_its_kind_and_time(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let id = claim.id;
    let cases = [
        (ReplyKind::Done, r#"{"b": 1.0, "a": [1e3, "ü\u00e9\"\\"]}"#),
        (ReplyKind::Failed, r#""out of paper""#),
        (ReplyKind::Rejected, "null"),
    ];
    let mut replies = Vec::new();
    for (nth, (kind, data)) in cases.into_iter().enumerate() {
        let signal = subject.sends(id, &format!("u-{nth}")).await;
        let data = json(data);
        replies.push(NewReply { signal, kind, data });
    }
    let signals: Vec<SignalId> = replies.iter().map(|it| it.signal).collect();
    subject.pass(seconds(3));
    subject.reply(replying(&claim, keep("next"), replies)).await;
    let at = subject.now();
    subject.pass(seconds(3));
    for (nth, (kind, data)) in cases.into_iter().enumerate() {
        let data = json(data);
        let expected = SentUpdate {
            signal: signals[nth],
            name: "ask".into(),
            state: UpdateState::Replied(Reply { kind, data, at }),
        };
        let found = subject.update_of(id, &format!("u-{nth}")).await.unwrap();
        assert_eq!(found, expected);
        let UpdateState::Replied(reply) = found.state else {
            panic!("{nth} is answered");
        };
        // Equal documents may differ in their text.
        assert_eq!(reply.data.as_str(), cases[nth].1);
    }
    for row in subject.signals(id).await {
        assert!(row.wants_reply);
        assert_eq!((row.payload, row.consumed_at), (None, Some(at)));
    }
}

pub async fn an_id_of_any_bytes_finds_its_update(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let bytes = vec![0xff, 0, b'u'];
    let by_bytes = signal(claim.id, "ask").update(bytes.clone());
    let (sent, _) = subject.arrives(by_bytes).await;
    subject.sends(claim.id, "'; drop table signals; --").await;
    let replies = vec![reply(sent, "1")];
    subject.reply(replying(&claim, keep("next"), replies)).await;
    let id: String = KeyText::from(bytes).into();
    assert_eq!(subject.standing(claim.id, &id).await, "done 1");
    let other = subject
        .standing(claim.id, "'; drop table signals; --")
        .await;
    assert_eq!(other, "pending");
}

pub async fn the_largest_reply_is_stored(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let sent = subject.sends(claim.id, "u").await;
    let longest = "x".repeat(limits::JSON_BYTES_MAX - 2);
    let data = Json::of(&longest).unwrap();
    let answer = NewReply {
        data: data.clone(),
        ..reply(sent, "1")
    };
    subject
        .reply(replying(&claim, keep("next"), vec![answer]))
        .await;
    let found = subject.update_of(claim.id, "u").await.unwrap();
    let UpdateState::Replied(reply) = found.state else {
        panic!("it is answered");
    };
    assert_eq!(reply.data, data);
}

/// Also an outcome that keeps the inbox.
pub async fn every_outcome_can_reply_and_consumes_the_update(subject: &Subject) {
    let outcomes = [
        keep("next"),
        requeue("next"),
        again(seconds(9)),
        wait_for(&["ask"]),
        fan_out(tasks(1)),
        flow_on(),
        flow_requeue(),
        start(tasks(1)),
        park(for_signals(&["ask"])),
        park(for_time(9)),
        start_and_park(tasks(1), for_ends(&[1], &[], 1)),
        renew(),
        done(),
        stop(),
        cancel(),
    ];
    for outcome in outcomes {
        let (_, claim) = subject.running(task().priority(-9)).await;
        let id = claim.id;
        let answered = subject.sends(id, "u-1").await;
        let other = subject.sends(id, "u-2").await;
        subject.arrives(signal(id, "plain")).await;
        subject.pass(seconds(1));
        let replies = vec![reply(answered, "1")];
        let commit = replying_unread(&claim, outcome.clone(), replies);
        subject.reply(commit).await;
        assert_eq!(subject.standing(id, "u-1").await, "done 1", "{outcome:?}");
        let rows = subject.signals(id).await;
        let consumed = |row: SignalId| {
            let row = rows.iter().find(|it| it.id == row);
            row.expect("its tombstone stays").consumed_at
        };
        assert_eq!(consumed(answered), Some(subject.now()), "{outcome:?}");
        let has_ended = outcome.end().is_some();
        assert_eq!(consumed(other).is_some(), has_ended, "{outcome:?}");
        let expected = match has_ended {
            true => "ended",
            false => "pending",
        };
        assert_eq!(subject.standing(id, "u-2").await, expected, "{outcome:?}");
        let left: &[&str] = match has_ended {
            true => &[],
            false => &["ask", "plain"],
        };
        assert_eq!(subject.inbox(id).await, left, "{outcome:?}");
        subject.terminate(id).await;
        for child in subject.child_ids(id, 1).await {
            subject.terminate(child).await;
        }
    }
}

/// The sender would wait for a step that the update itself has kept awake.
pub async fn an_answered_update_does_not_prevent_a_park(subject: &Subject) {
    let parks = [
        (wait_for(&["ask"]), Status::AwaitingSignal),
        (park(for_signals(&["ask"])), Status::AwaitingSignal),
        (park(for_all(&["ask", "x"])), Status::AwaitingSignal),
        (
            start_and_park(tasks(1), for_anything_of(&["ask"])),
            Status::AwaitingChildren,
        ),
    ];
    for (outcome, status) in parks {
        let (_, claim) = subject.running(task().priority(-9)).await;
        let id = claim.id;
        let sent = subject.sends(id, "u-1").await;
        let commit = replying_unread(&claim, outcome.clone(), vec![reply(sent, "1")]);
        assert_eq!(subject.reply(commit).await, status, "{outcome:?}");
        let row = subject.get(id).await;
        assert!(row.awaits.unwrap().contains(&"ask".to_owned()));
        subject.terminate(id).await;
        for child in subject.child_ids(id, 1).await {
            subject.terminate(child).await;
        }
    }
}

fn for_all(names: &[&str]) -> outlast_core::Park {
    outlast_core::Park {
        needs_all: true,
        ..for_signals(names)
    }
}

fn for_anything_of(names: &[&str]) -> outlast_core::Park {
    outlast_core::Park {
        join_sets: for_ends(&[1], &[], 1).join_sets,
        ..for_signals(names)
    }
}

/// An unanswered one is a reason to run, and so is a plain signal that the step replies to.
pub async fn a_park_sees_every_signal_that_it_does_not_answer(subject: &Subject) {
    for outcome in [wait_for(&["ask"]), park(for_signals(&["ask"]))] {
        let (_, claim) = subject.running(task().priority(-9)).await;
        let answered = subject.sends(claim.id, "u-1").await;
        subject.sends(claim.id, "u-2").await;
        let replies = vec![reply(answered, "1")];
        let commit = replying_unread(&claim, outcome.clone(), replies);
        assert_eq!(subject.reply(commit).await, Status::Runnable);
        subject.terminate(claim.id).await;

        let (_, claim) = subject.running(task().priority(-9)).await;
        let plain = signal(claim.id, "ask").dedup_key("d");
        let (plain, _) = subject.arrives(plain).await;
        let replies = vec![reply(plain, "1")];
        let commit = replying_unread(&claim, outcome, replies);
        assert_eq!(subject.reply(commit).await, Status::Runnable);
        subject.terminate(claim.id).await;
    }
}

pub async fn an_update_can_be_answered_commits_after_it_was_consumed(subject: &Subject) {
    let (worker, id) = subject.parked(&["ask"]).await;
    let sent = subject.sends(id, "u").await;
    let claim = subject.claim_the(worker, id).await;
    let consumed_at = subject.now();
    subject.commit(&claim, requeue("handled")).await;
    for _ in 0..3 {
        subject.pass(seconds(1));
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, requeue("later")).await;
    }
    let claim = subject.claim_the(worker, id).await;
    let replies = vec![reply(sent, "1")];
    subject
        .reply(replying(&claim, wait_for(&["x"]), replies))
        .await;
    assert_eq!(subject.standing(id, "u").await, "done 1");
    let row = subject.signals(id).await.remove(0);
    assert_eq!(row.consumed_at, Some(consumed_at), "consumed once");
}

pub async fn one_commit_can_receive_an_update_and_answer_it(subject: &Subject) {
    let (worker, id) = subject.parked(&["ask"]).await;
    let sent = subject.sends(id, "u").await;
    let claim = subject.claim_the(worker, id).await;
    let commit = replying(&claim, requeue("next"), vec![reply(sent, "1")]);
    assert_eq!(commit.received, [sent]);
    subject.reply(commit).await;
    assert_eq!(subject.standing(id, "u").await, "done 1");
    assert_eq!(subject.signals(id).await.len(), 1);
    assert_eq!(subject.inbox(id).await, [""; 0]);
}

pub async fn the_first_reply_stands(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let sent = subject.sends(claim.id, "u").await;
    let first = replying(&claim, keep("a"), vec![reply(sent, "1")]);
    subject.reply(first).await;
    let before = subject.update_of(claim.id, "u").await;
    subject.pass(seconds(1));
    let claim = kept(&claim);
    let second = NewReply::because(sent, ReplyKind::Failed, "too late");
    subject
        .reply(replying(&claim, keep("b"), vec![second]))
        .await;
    assert_eq!(subject.update_of(claim.id, "u").await, before);
}

pub async fn a_reply_to_what_is_no_update_of_the_instance_is_left_out(subject: &Subject) {
    let (_, other) = subject.running(task()).await;
    let foreign = subject.sends(other.id, "u").await;
    let (_, claim) = subject.running(task()).await;
    let id = claim.id;
    let (plain, _) = subject.arrives(signal(id, "x")).await;
    let (keyed, _) = subject.arrives(signal(id, "x").dedup_key("d")).await;
    let asked = subject.sends(id, "u").await;
    let before = (subject.signals(other.id).await, subject.signals(id).await);
    let replies = [foreign, plain, keyed, SignalId(987_654), asked];
    let replies = replies.map(|signal| reply(signal, "1")).to_vec();
    subject.reply(replying(&claim, keep("next"), replies)).await;
    assert_eq!(subject.standing(other.id, "u").await, "pending");
    assert_eq!(subject.signals(other.id).await, before.0);
    assert_eq!(subject.signals(id).await[..2], before.1[..2]);
    assert_eq!(subject.update_of(id, "d").await, None);
    assert_eq!(subject.standing(id, "u").await, "done 1");
}

pub async fn a_plain_signal_is_no_update(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    subject.arrives(signal(claim.id, "x").dedup_key("d")).await;
    subject.sends(claim.id, "u").await;
    let unknown = InstanceId(987_654);
    for (id, name) in [(claim.id, "d"), (claim.id, "v"), (unknown, "u")] {
        assert_eq!(subject.update_of(id, name).await, None, "{id} {name}");
    }
    let (_, other) = subject.running(task()).await;
    assert_eq!(subject.update_of(other.id, "u").await, None);
    // Its key is taken for updates too, and the other way round.
    let instance = claim.id;
    let duplicate = Delivery::Duplicate { instance };
    assert_eq!(subject.deliver(update(instance, "d")).await, duplicate);
    assert_eq!(subject.update_of(instance, "d").await, None);
    let plain = signal(instance, "x").dedup_key("u");
    assert_eq!(subject.deliver(plain).await, duplicate);
    assert_eq!(subject.standing(instance, "u").await, "pending");
}

pub async fn an_update_that_is_sent_again_keeps_its_one_reply(subject: &Subject) {
    let (_, claim) = subject.running(task().correlation_key("k")).await;
    let instance = claim.id;
    let by_key = || signal_to_key("k", "ask").update("u");
    let (sent, _) = subject.arrives(by_key()).await;
    let duplicate = Delivery::Duplicate { instance };
    assert_eq!(subject.deliver(update(instance, "u")).await, duplicate);
    let replies = vec![reply(sent, "1")];
    let commit = replying(&claim, keep("next"), replies);
    subject.reply(commit).await;
    assert_eq!(subject.deliver(by_key()).await, duplicate);
    assert_eq!(subject.standing(instance, "u").await, "done 1");
    subject.commit(&kept(&claim), done()).await;
    assert_eq!(subject.deliver(by_key()).await, duplicate);
    // The next holder of the key does not get it either.
    let next = subject.insert(task().correlation_key("k")).await;
    assert_eq!(subject.deliver(by_key()).await, duplicate);
    assert_eq!(subject.signals(next).await, []);
    assert_eq!(subject.standing(instance, "u").await, "done 1");
}

/// I3.
pub async fn a_lost_outcome_replies_to_nothing(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let id = claim.id;
    let sent = subject.sends(id, "u").await;
    let (_, other) = subject.running(task()).await;
    let sent_to_other = subject.sends(other.id, "u").await;
    subject.commit(&claim, keep("next")).await;
    let outcomes = [
        keep("a"),
        again(seconds(0)),
        wait_for(&["ask"]),
        fan_out(vec![]),
        flow_on(),
        park(for_signals(&["ask"])),
        renew(),
        done(),
        stop(),
    ];
    for outcome in outcomes {
        let commit = replying(&claim, outcome.clone(), vec![reply(sent, "1")]);
        let answers = subject.commit_all(vec![commit]).await.answers;
        assert_eq!(answers, [Answer::Lost], "{outcome:?}");
        assert_eq!(subject.standing(id, "u").await, "pending");
        assert_eq!(subject.inbox(id).await, ["ask"]);
    }
    // Beside an outcome that is written.
    let commits = vec![
        replying(&claim, done(), vec![reply(sent, "1")]),
        replying(&other, keep("next"), vec![reply(sent_to_other, "2")]),
    ];
    let answers = subject.commit_all(commits).await.answers;
    assert_eq!(answers[0], Answer::Lost);
    assert!(matches!(answers[1], Answer::Committed { .. }));
    assert_eq!(subject.standing(id, "u").await, "pending");
    assert_eq!(subject.standing(other.id, "u").await, "done 2");
}

/// I13. The workflow decides anew, and may answer otherwise.
pub async fn an_outcome_that_yields_to_a_cancel_replies_to_nothing(subject: &Subject) {
    for outcome in [park(for_signals(&["x"])), start(tasks(1))] {
        let (_, claim) = subject.running(task().priority(-9)).await;
        let id = claim.id;
        let sent = subject.sends(id, "u").await;
        subject.cancel(id).await;
        let commit = replying(&claim, outcome.clone(), vec![reply(sent, "1")]);
        let answers = subject.commit_all(vec![commit.clone()]).await.answers;
        assert!(matches!(answers[0], Answer::Cancel(_)), "{answers:?}");
        assert_eq!(subject.standing(id, "u").await, "pending");
        assert_eq!(subject.inbox(id).await, ["ask"]);
        let answering = Commit {
            answers_cancel: true,
            replies: vec![reply(sent, "2")],
            ..commit
        };
        subject.reply(answering).await;
        assert_eq!(subject.standing(id, "u").await, "done 2");
        subject.terminate(id).await;
        for child in subject.child_ids(id, 1).await {
            subject.terminate(child).await;
        }
    }
    // An outcome that does not yield is written with its replies.
    for outcome in [keep("next"), wait_for(&["x"]), flow_on(), flow_requeue()] {
        let (_, claim) = subject.running(task().priority(-9)).await;
        let sent = subject.sends(claim.id, "u").await;
        subject.cancel(claim.id).await;
        let commit = replying(&claim, outcome.clone(), vec![reply(sent, "1")]);
        subject.reply(commit).await;
        assert_eq!(
            subject.standing(claim.id, "u").await,
            "done 1",
            "{outcome:?}"
        );
        subject.terminate(claim.id).await;
    }
}

pub async fn replies_that_cannot_be_stored_reject_only_their_own_outcome(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(tasks(2)).await;
    let claims = subject.claim(worker, 2).await;
    let sent = subject.sends(ids[1], "u").await;
    let before = subject.get(ids[1]).await;
    let many = (0..=limits::INBOX_MAX as i64).map(|n| reply(SignalId(n), "1"));
    let bad = [vec![reply(sent, "1"), reply(sent, "2")], many.collect()];
    let mut good = claims[0].clone();
    for bad in bad {
        let asked = subject.sends(ids[0], &good.revision.to_string()).await;
        let commits = vec![
            replying(&good, keep("next"), vec![reply(asked, "1")]),
            replying(&claims[1], keep("next"), bad),
        ];
        let answers = subject.commit_all(commits).await.answers;
        assert!(matches!(answers[0], Answer::Committed { .. }));
        assert!(matches!(answers[1], Answer::Rejected(_)), "{answers:?}");
        let replied = subject.standing(ids[0], &good.revision.to_string()).await;
        assert_eq!(replied, "done 1");
        good = kept(&good);
    }
    subject.assert_unchanged(&before).await;
    assert_eq!(subject.standing(ids[1], "u").await, "pending");
}

/// The instance cannot answer any more.
pub async fn an_unanswered_update_ends_with_its_instance(subject: &Subject) {
    for outcome in [done(), stop(), cancel()] {
        let (worker, id) = subject.parked(&["ask"]).await;
        subject.sends(id, "consumed").await;
        let claim = subject.claim_the(worker, id).await;
        subject.commit(&claim, keep("next")).await;
        let claim = kept(&claim);
        let sent = subject.sends(id, "answered").await;
        subject.sends(id, "unread").await;
        let replies = vec![reply(sent, "1")];
        subject
            .reply(replying_unread(&claim, outcome, replies))
            .await;
        assert_eq!(subject.standing(id, "answered").await, "done 1");
        assert_eq!(subject.standing(id, "consumed").await, "ended");
        assert_eq!(subject.standing(id, "unread").await, "ended");
    }
    // Nobody asks the machine.
    let terminated = subject.insert(task()).await;
    subject.sends(terminated, "u").await;
    subject.terminate(terminated).await;
    assert_eq!(subject.standing(terminated, "u").await, "ended");
    let late = subject.insert(task().timeout(seconds(5))).await;
    subject.sends(late, "u").await;
    subject.pass(seconds(5));
    assert_eq!(subject.standing(late, "u").await, "pending");
    let ended = subject.store.time_out(10).await.unwrap().ended;
    assert_eq!(ended, [late]);
    assert_eq!(subject.standing(late, "u").await, "ended");
    // An update to an ended instance is not delivered, and so is none.
    assert_eq!(subject.deliver(update(late, "v")).await, Delivery::NoTarget);
    assert_eq!(subject.update_of(late, "v").await, None);
}

/// The operator's retry begins a life in which they are not in the inbox.
pub async fn a_retry_leaves_unanswered_updates_ended(subject: &Subject) {
    let (worker, id) = subject.parked(&["ask"]).await;
    let answered = subject.sends(id, "answered").await;
    let consumed = subject.sends(id, "consumed").await;
    let claim = subject.claim_the(worker, id).await;
    let replies = vec![reply(answered, "1")];
    subject.reply(replying(&claim, keep("next"), replies)).await;
    let unread = subject.sends(id, "unread").await;
    subject.commit(&kept(&claim), stop()).await;
    // One that ended and is not retried, and one that is, in one batch.
    let (_, done_one) = subject.running(task()).await;
    subject.sends(done_one.id, "u").await;
    subject.commit(&done_one, done()).await;
    let other = subject.insert(task()).await;
    subject.sends(other, "u").await;
    subject.terminate(other).await;
    let (_, live) = subject.running(task()).await;
    let pending = subject.sends(live.id, "u").await;

    let answers = subject.retry(vec![other, id, done_one.id, live.id]).await;
    assert_eq!(
        answers,
        [
            RetryAnswer::Retried,
            RetryAnswer::Retried,
            RetryAnswer::NotEndedBadly(Status::Done),
            RetryAnswer::NotEndedBadly(Status::Executing),
        ]
    );
    for update in ["consumed", "unread"] {
        assert_eq!(subject.standing(id, update).await, "ended", "{update}");
    }
    assert_eq!(subject.standing(id, "answered").await, "done 1");
    assert_eq!(subject.standing(other, "u").await, "ended");
    assert_eq!(subject.standing(done_one.id, "u").await, "ended");
    assert_eq!(subject.standing(live.id, "u").await, "pending");
    // The next life answers its own updates, and none of the former.
    let fresh = subject.sends(id, "fresh").await;
    assert_eq!(subject.standing(id, "fresh").await, "pending");
    let claims = subject.claim(worker, 10).await;
    let claim = claims.iter().find(|claim| claim.id == id).unwrap();
    let asked: Vec<_> = claim.inbox.iter().map(|signal| signal.id).collect();
    assert_eq!(asked, [fresh]);
    let replies = [consumed, unread, fresh, pending];
    let replies = replies.map(|signal| reply(signal, "2")).to_vec();
    subject.reply(replying(claim, keep("next"), replies)).await;
    assert_eq!(subject.standing(id, "fresh").await, "done 2");
    for update in ["consumed", "unread"] {
        assert_eq!(subject.standing(id, update).await, "ended", "{update}");
    }
    // A second end and a second retry keep the states.
    subject.terminate(id).await;
    assert_eq!(subject.retry(vec![id]).await, [RetryAnswer::Retried]);
    assert_eq!(subject.standing(id, "fresh").await, "done 2");
    assert_eq!(subject.standing(id, "unread").await, "ended");
    let instance = id;
    assert_eq!(
        subject.deliver(update(id, "unread")).await,
        Delivery::Duplicate { instance }
    );
}

pub async fn continue_as_new_carries_pending_updates_on(subject: &Subject) {
    let (worker, id) = subject.parked(&["ask"]).await;
    let consumed = subject.sends(id, "consumed").await;
    let claim = subject.claim_the(worker, id).await;
    subject.commit(&claim, flow_on()).await;
    let unread = subject.sends(id, "unread").await;
    let claim = kept(&claim);
    let renewed = replying_unread(&claim, renew(), Vec::new());
    subject.reply(renewed).await;
    for update in ["consumed", "unread"] {
        assert_eq!(subject.standing(id, update).await, "pending", "{update}");
    }
    let claim = subject.claim_the(worker, id).await;
    let asked: Vec<_> = claim.inbox.iter().map(|signal| signal.id).collect();
    assert_eq!(asked, [unread]);
    let replies = vec![reply(consumed, "1"), reply(unread, "2")];
    subject.reply(replying(&claim, flow_on(), replies)).await;
    assert_eq!(subject.standing(id, "consumed").await, "done 1");
    assert_eq!(subject.standing(id, "unread").await, "done 2");
}

/// I1.
pub async fn a_crash_keeps_updates_and_replies(subject: &Subject) {
    let (_, claim) = subject.running(task()).await;
    let id = claim.id;
    let first = subject.sends(id, "u-1").await;
    subject.sends(id, "u-2").await;
    let replies = vec![reply(first, "1")];
    subject.reply(replying(&claim, flow_on(), replies)).await;
    subject.pass(LEASE);
    subject.reap().await;
    assert_eq!(subject.standing(id, "u-1").await, "done 1");
    assert_eq!(subject.standing(id, "u-2").await, "pending");
    let worker = subject.worker().await;
    let claim = subject.claim_the(worker, id).await;
    assert_eq!(names_of(&claim.inbox), ["ask"]);
    // An instance that crashes too often ends, and its updates with it.
    let request = outlast_core::ReapRequest {
        max: 100,
        crashes_max: 0,
    };
    subject.pass(LEASE);
    let reaped = subject.store.reap(request).await.unwrap();
    assert_eq!(reaped.failed, [id]);
    assert_eq!(subject.standing(id, "u-2").await, "ended");
}

/// I1.
pub async fn replies_are_removed_with_their_instance_and_not_before(subject: &Subject) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        let (_, claim) = subject.running(task()).await;
        let sent = subject.sends(claim.id, "u").await;
        let replies = vec![reply(sent, "1")];
        subject.reply(replying(&claim, done(), replies)).await;
        subject.pass(seconds(1));
        ids.push(claim.id);
    }
    let request = CollectRequest {
        retention: seconds(0),
        max: 1,
    };
    let collected = subject.store.collect(request).await.unwrap();
    assert_eq!(collected.removed, [ids[0]]);
    let deleted = subject.store.delete(vec![ids[1]], note()).await.unwrap();
    assert_eq!(deleted, [DeleteAnswer::Deleted]);
    for gone in &ids[..2] {
        assert_eq!(subject.update_of(*gone, "u").await, None);
        assert_eq!(subject.signals(*gone).await, []);
    }
    assert_eq!(subject.standing(ids[2], "u").await, "done 1");
}

pub async fn replies_of_one_batch_are_kept_apart(subject: &Subject) {
    let worker = subject.worker().await;
    let ids = subject.insert_all(tasks(6)).await;
    let mut sent = Vec::new();
    for (n, id) in ids.iter().enumerate() {
        for update in 0..n {
            let update = format!("u-{update}");
            sent.push((n, subject.sends(*id, &update).await));
        }
    }
    let claims = subject.claim(worker, 6).await;
    let outcomes = [
        keep("a"),
        done(),
        wait_for(&["ask"]),
        flow_on(),
        park(for_signals(&["ask"])),
        renew(),
    ];
    let commits = claims.iter().zip(outcomes).enumerate();
    let commits = commits.map(|(n, (claim, outcome))| {
        let own = sent.iter().filter(|(of, _)| *of == n);
        let replies = own.map(|(_, signal)| reply(*signal, &n.to_string()));
        replying_unread(claim, outcome, replies.collect())
    });
    let answers = subject.commit_all(commits.collect()).await.answers;
    for answer in answers {
        assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
    }
    for (n, id) in ids.iter().enumerate() {
        for update in 0..n {
            let replied = subject.standing(*id, &format!("u-{update}")).await;
            assert_eq!(replied, format!("done {n}"));
        }
        assert_eq!(subject.inbox(*id).await, [""; 0]);
    }
}

/// A user's cancel answers as a terminate does: the update of an instance that never started ends.
pub async fn a_cancel_of_a_whole_tree_ends_the_updates_of_what_never_started(subject: &Subject) {
    let children = vec![task(), task()];
    let (_, claim) = subject.running(task()).await;
    let windowed = fan_out_with(children, window(1));
    subject.commit(&claim, windowed).await;
    let ids = subject.child_ids(claim.id, 1).await;
    for id in &ids {
        subject.sends(*id, "u").await;
    }
    let cancelled = subject.store.cancel(ids.clone(), Extent::One, note());
    cancelled.await.unwrap();
    assert_eq!(subject.standing(ids[0], "u").await, "pending");
    assert_eq!(subject.standing(ids[1], "u").await, "ended");
}
