//! Joins of children whose ends are already in the history.

use crate::support::*;

on_both_stores!(a_group_of_known_failures_fails_with_the_one_recorded_first,);

async fn a_group_of_known_failures_fails_with_the_one_recorded_first(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = |ms, why: &str| Kid::with(Say::SleepThenFail(ms, why.to_owned()));
        let first = flow.spawn(kid(5, "earlier")).await?;
        let second = flow.spawn(kid(10, "later")).await?;
        let known = [first.join().await.is_err(), second.join().await.is_err()];
        let group = flow.all((second.join(), first.join()));
        Ok((known, group.await.unwrap_err().to_string()))
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen, json!([[true, true], "kid failed: earlier"]));
}
