//! A bad row among good ones is reported, and the good ones are written or read.

use crate::support::work::{
    claim, commit, done, get, insert, offer, outcome_of, request, running, task, wait_for, worker,
};
use crate::support::{drop_schema, options, raw, unique_schema};
use outlast_core::{
    Answer, Claim, ErrorKind, Inspect, InstanceId, Join, Json, ManualClock, NewSignal, Outcome,
    Status, Store,
};
use outlast_postgres::Postgres;

async fn open() -> (Postgres, String) {
    let schema = unique_schema();
    let store = options(&schema, &ManualClock::default())
        .connect()
        .await
        .unwrap();
    (store, schema)
}

async fn close(store: Postgres, schema: &str) {
    store.close().await;
    drop_schema(schema).await;
}

/// Makes the database refuse updates that pass every check of the store.
async fn refuse_updates(schema: &str, condition: &str) {
    let trigger = format!(
        "create function {schema}.refuse() returns trigger language plpgsql
             as $$ begin raise 'refused by the test'; end $$;
         create trigger refuse before update on {schema}.instances
             for each row when ({condition}) execute function {schema}.refuse()"
    );
    raw().await.batch_execute(&trigger).await.unwrap();
}

/// Defect 12 (docs/protocol.md): the store splits the batch until each bad row is alone.
#[tokio::test]
async fn outcomes_that_cannot_be_written_are_rejected_alone() {
    let (store, schema) = open().await;
    let worker = worker(&store).await;
    for _ in 0..9 {
        insert(&store, task()).await;
    }
    let claims = store.claim(request(worker, 9)).await.unwrap().claims;
    let bad = [claims[2].id, claims[7].id];
    refuse_updates(&schema, &format!("new.id in ({}, {})", bad[0], bad[1])).await;

    let commits: Vec<_> = claims
        .iter()
        .flat_map(|claim| outcome_of(claim, done()))
        .collect();
    let answers = store.commit(commits.into()).await.unwrap().answers;
    for (claim, answer) in claims.iter().zip(&answers) {
        let status = get(&store, claim.id).await.status;
        match answer {
            Answer::Rejected(invalid) => {
                assert!(bad.contains(&claim.id), "{invalid}");
                assert!(
                    invalid.to_string().contains("refused by the test"),
                    "{invalid}"
                );
                assert_eq!(status, Status::Executing);
            }
            Answer::Committed { .. } => assert_eq!(status, Status::Done),
            Answer::Lost | Answer::Cancel(_) => panic!("{}: {answer:?}", claim.id),
        }
    }
    let rejected = answers
        .iter()
        .filter(|answer| matches!(answer, Answer::Rejected(_)));
    assert_eq!(rejected.count(), 2);
    close(store, &schema).await;
}

/// The writes that belong to the bad row are undone with it, here its children.
#[tokio::test]
async fn a_rejected_outcome_leaves_nothing_behind() {
    let (store, schema) = open().await;
    let claim = running(&store).await;
    refuse_updates(&schema, "new.round = 1").await;
    let fan_out = Outcome::FanOut {
        children: vec![task(); 5],
        join: Join::default(),
        step: "join".into(),
        state: claim.state.clone(),
    };
    let answers = store
        .commit(outcome_of(&claim, fan_out).into())
        .await
        .unwrap()
        .answers;
    assert!(matches!(answers[0], Answer::Rejected(_)), "{answers:?}");
    assert_eq!(store.children(claim.id, None, None).await.unwrap(), []);

    let answers = store
        .commit(outcome_of(&claim, done()).into())
        .await
        .unwrap()
        .answers;
    assert!(
        matches!(answers[0], Answer::Committed { .. }),
        "the claim is still held"
    );
    close(store, &schema).await;
}

/// Defect 12 (docs/protocol.md): an update by hand bypassed every check.
#[tokio::test]
async fn a_row_that_cannot_be_read_fails_alone_and_does_not_stop_its_queue() {
    let (store, schema) = open().await;
    let worker = worker(&store).await;
    let unreadable = insert(&store, task()).await;
    let readable = insert(&store, task()).await;
    let by_hand =
        format!("update {schema}.instances set children_dropped = '7' where id = {unreadable}");
    raw().await.batch_execute(&by_hand).await.unwrap();
    let error = store.get(unreadable).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");

    let claims: Vec<Claim> = store.claim(request(worker, 10)).await.unwrap().claims;
    assert_eq!(
        claims.iter().map(|claim| claim.id).collect::<Vec<_>>(),
        [readable]
    );
    assert_failed_unread(&schema, unreadable).await;
    close(store, &schema).await;
}

/// The same for what a claim loads besides its row. Children stay readable for other readers, so
/// their parent fails and they do not.
#[tokio::test]
async fn an_instance_whose_signals_or_children_cannot_be_read_fails_alone() {
    let (store, schema) = open().await;
    let worker = worker(&store).await;
    let waiting = insert(&store, task()).await;
    let fanning_out = insert(&store, task()).await;
    for claim in store.claim(request(worker, 2)).await.unwrap().claims {
        let outcome = match claim.id == waiting {
            true => wait_for("go"),
            false => Outcome::FanOut {
                children: vec![task()],
                join: Join::default(),
                step: "join".into(),
                state: Json::null(),
            },
        };
        commit(&store, &claim, outcome).await;
    }
    let child = claim(&store, worker).await;
    commit(&store, &child, done()).await;
    let signal = NewSignal::new(waiting.into(), "go", Json::null());
    store.deliver(vec![signal], None).await.unwrap();
    let neighbour = insert(&store, task()).await;
    let by_hand = format!(
        "update {schema}.signals set payload = null where target_id = {waiting};
         update {schema}.instances set on_parent_close = 'unheard of' where id = {}",
        child.id
    );
    raw().await.batch_execute(&by_hand).await.unwrap();

    let claimed = store.claim(request(worker, 10)).await.unwrap();
    let ids: Vec<InstanceId> = claimed.claims.iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [neighbour]);
    for id in [waiting, fanning_out] {
        assert_failed_unread(&schema, id).await;
    }
    close(store, &schema).await;
}

/// The same for rows that a delivery claims: one row and one signal in an inbox are unreadable.
#[tokio::test]
async fn an_unreadable_row_that_a_delivery_claims_fails_alone() {
    let (store, schema) = open().await;
    let worker = worker(&store).await;
    let mut parked = Vec::new();
    for _ in 0..3 {
        let claim = {
            insert(&store, task()).await;
            claim(&store, worker).await
        };
        commit(&store, &claim, wait_for("go")).await;
        parked.push(claim.id);
    }
    let to = |id: InstanceId, name: &str| NewSignal::new(id.into(), name, Json::null());
    store
        .deliver(vec![to(parked[1], "other")], None)
        .await
        .unwrap();
    let by_hand = format!(
        "update {schema}.instances set children_dropped = '7' where id = {};
         update {schema}.signals set payload = null where target_id = {}",
        parked[0], parked[1]
    );
    raw().await.batch_execute(&by_hand).await.unwrap();

    let signals = parked.iter().map(|id| to(*id, "go")).collect();
    let delivered = store.deliver(signals, Some(offer(worker))).await.unwrap();
    assert_eq!(delivered.answers.len(), 3);
    let claimed: Vec<InstanceId> = delivered.claims.iter().map(|claim| claim.id).collect();
    assert_eq!(claimed, parked[2..]);
    assert!(delivered.woken.is_empty(), "{:?}", delivered.woken);
    for id in &parked[..2] {
        assert_failed_unread(&schema, *id).await;
    }
    close(store, &schema).await;
}

async fn assert_failed_unread(schema: &str, id: InstanceId) {
    let row = raw()
        .await
        .query_one(
            &format!("select status, last_error from {schema}.instances where id = {id}"),
            &[],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, &str>("status"), "failed");
    let error: &str = row.get("last_error");
    assert!(error.contains("cannot be read"), "{error}");
}
