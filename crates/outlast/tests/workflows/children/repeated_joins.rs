//! Children that are waited for again, when the history knows their ends.

use crate::support::*;

on_both_stores!(of_failures_that_were_known_before_the_group_the_one_recorded_first_is_chosen,);

async fn of_failures_that_were_known_before_the_group_the_one_recorded_first_is_chosen(
    ground: Ground,
) {
    let code = script(|flow, _| async move {
        let fails = |ms, why: &str| Say::SleepThenFail(ms, why.to_owned());
        let first = flow.start_child::<Kid>(fails(5, "earlier")).await?;
        let second = flow.start_child::<Kid>(fails(10, "later")).await?;
        let known = [first.join().await.is_err(), second.join().await.is_err()];
        let group = flow.all((second.join(), first.join()));
        Ok((known, group.await.unwrap_err().to_string()))
    });
    let seen = result_of(&ground, code, ()).await;
    assert_eq!(seen, json!([[true, true], "kid failed: earlier"]));
}
