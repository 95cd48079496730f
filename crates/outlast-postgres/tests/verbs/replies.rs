//! The statements of commits with and without replies to updates.

use crate::support::work::{claim, done, insert, task, wait_for, worker};
use crate::support::{drop_schema, unique_schema, url};
use async_trait::async_trait;
use outlast_core::{
    Claim, Commit, Delivery, Flowing, Json, NewReply, NewSignal, Outcome, Park, Proceed, ReplyKind,
    SignalId, Store,
};
use outlast_postgres::{Conductor, Postgres};
use std::mem::take;
use std::sync::{Arc, Mutex};

/// Notes the names of the statements that are sent.
#[derive(Default)]
struct Names(Mutex<Vec<&'static str>>);

#[async_trait]
impl Conductor for Names {
    async fn before(&self, statement: &'static str) {
        self.0.lock().unwrap().push(statement);
    }
}

fn flow(then: Flowing) -> Outcome {
    Outcome::Flow {
        children: Vec::new(),
        window: None,
        then,
    }
}

/// A running task with an update in its inbox.
async fn asked(store: &Postgres) -> (Claim, SignalId) {
    insert(store, task()).await;
    let claim = claim(store, worker(store).await).await;
    let update = NewSignal::new(claim.id.into(), "ask", Json::null()).update("u");
    let delivered = store.deliver(vec![update], None).await.unwrap();
    let Delivery::Delivered { id, .. } = delivered.answers[0] else {
        panic!("{delivered:?}");
    };
    (claim, id)
}

/// Nobody pays for replies who sends none.
#[tokio::test]
async fn a_reply_is_one_statement_more_under_a_lock_and_without_it_nothing_changes() {
    let (schema, names) = (unique_schema(), Arc::new(Names::default()));
    let options = Postgres::options(&url()).unwrap().schema(&schema);
    let store = options.conductor(names.clone()).connect().await.unwrap();
    let park = Park {
        names: vec!["other".into()],
        ..Park::default()
    };
    let keep = Outcome::Next {
        step: "next".into(),
        state: Json::null(),
        proceed: Proceed::KeepClaim,
    };
    let cases: [(Outcome, &[&str], &[&str]); 5] = [
        (
            keep,
            &["commit/advance"],
            &["commit/lock", "inbox/reply", "commit/advance"],
        ),
        (
            wait_for("other"),
            &["commit/lock", "commit/park"],
            &["commit/lock", "inbox/reply", "commit/park"],
        ),
        (
            flow(Flowing::Proceed(Proceed::KeepClaim)),
            &["commit/advance_workflow"],
            &["commit/lock", "inbox/reply", "commit/advance_workflow"],
        ),
        (
            flow(Flowing::Park(park)),
            &["commit/lock", "commit/park_workflow"],
            &["commit/lock", "inbox/reply", "commit/park_workflow"],
        ),
        (
            done(),
            &["commit/advance", "inbox/clear"],
            &[
                "commit/lock",
                "inbox/reply",
                "commit/advance",
                "inbox/clear",
            ],
        ),
    ];
    for (outcome, without, with) in cases {
        for is_answered in [false, true] {
            let (claim, signal) = asked(&store).await;
            let reply = NewReply {
                signal,
                kind: ReplyKind::Done,
                data: Json::null(),
            };
            let commit = Commit {
                replies: is_answered.then_some(reply).into_iter().collect(),
                ..Commit::of(&claim, outcome.clone())
            };
            take(&mut *names.0.lock().unwrap());
            store.commit(vec![commit].into()).await.unwrap();
            let sent = take(&mut *names.0.lock().unwrap());
            let sent = sent.into_iter().filter(|name| name.contains('/'));
            let expected = if is_answered { with } else { without };
            assert_eq!(sent.collect::<Vec<_>>(), expected, "{outcome:?}");
        }
    }
    store.close().await;
    drop_schema(&schema).await;
}
