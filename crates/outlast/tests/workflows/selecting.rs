//! Selections: the first counts.

use crate::support::*;
use outlast::prelude::*;
use outlast::testing::Point;
use outlast::workflow::{OneOf2, OneOf3, OneOf4, Running};
use outlast::{Event, EventKind};

on_both_stores!(
    the_first_to_resolve_wins_whatever_it_is,
    of_several_that_have_come_the_earliest_wins,
    the_losers_go_on,
    the_losers_are_cancelled_when_that_was_said,
    the_losers_are_cancelled_when_the_workflow_ends_with_it,
    a_signal_of_a_loser_stays_in_the_inbox,
    a_winner_that_has_failed_is_the_error_of_the_selection,
    a_group_wins_when_it_is_complete,
    an_empty_group_wins_at_once,
    a_selection_of_nothing_is_refused,
    the_choice_is_recorded_and_stays_over_reruns,
    a_selection_is_woken_by_whichever_comes,
    what_is_there_already_wins_and_is_run_again,
);

/// Waits for one of everything, and says which it was.
fn one_of_everything() -> Script {
    script(|flow, _| async move {
        let first = flow.select((
            flow.child::<Kid>(Say::Wait),
            flow.signal::<Go>(),
            flow.sleep(HOUR),
            flow.machine(New::<Turnstile>(Turn::Wait(1))),
        ));
        Ok(match first.await? {
            OneOf4::First(n) => json!(["child", n]),
            OneOf4::Second(Go(n)) => json!(["signal", n]),
            OneOf4::Third(()) => json!(["timer"]),
            OneOf4::Fourth(n) => json!(["machine", n]),
        })
    })
}

async fn the_first_to_resolve_wins_whatever_it_is(ground: Ground) {
    let mut harness = ground.runs(one_of_everything()).await;
    let mut seen = Vec::new();
    for first in 0..4 {
        let id = ran(&mut harness, ()).await;
        let kids = children(&harness, id).await;
        match first {
            0 => go(&harness, kids[0].id, 10).await,
            1 => go(&harness, id.get(), 20).await,
            2 => harness.advance(HOUR).await,
            _ => go(&harness, kids[1].id, 30).await,
        }
        harness.run().await;
        seen.push(output(&get(&harness, id).await));
    }
    let expected = json!([["child", 10], ["signal", 20], ["timer"], ["machine", 31]]);
    assert_eq!(json!(seen), expected);
}

async fn of_several_that_have_come_the_earliest_wins(ground: Ground) {
    let mut harness = ground.runs(one_of_everything()).await;
    let mut others = ground.runs_children().await;
    for earliest in ["child", "signal"] {
        let id = ran(&mut harness, ()).await;
        let kid = children(&harness, id).await[0].id;
        for turn in 0..2 {
            others.advance(SECOND).await;
            match (earliest == "child") == (turn == 0) {
                true => go(&others, kid, 1).await,
                false => go(&others, id.get(), 2).await,
            }
            others.run().await;
        }
        harness.run().await;
        assert_eq!(output(&get(&harness, id).await)[0], earliest);
    }
}

async fn the_losers_go_on(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.select((
            flow.child::<Kid>(Say::Wait),
            flow.child::<Kid>(Say::Give(1)),
        ));
        let first = first.await?;
        flow.signal::<Halt>().await?;
        Ok(matches!(first, OneOf2::Second(1)))
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    harness.expect(id).await.awaits(["halt"]);
    let expected = [Status::AwaitingSignal, Status::Done];
    assert_eq!(statuses(&harness, id).await, expected);
    let kids = children(&harness, id).await;
    go(&harness, kids[0].id, 1).await;
    harness.run().await;
    assert_eq!(statuses(&harness, id).await, [Status::Done; 2]);
}

async fn the_losers_are_cancelled_when_that_was_said(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [Say::Wait, Say::Give(1), Say::Wait].map(|say| flow.child::<Kid>(say));
        let first = flow.select(Vec::from(kids)).cancel_rest().await?;
        flow.signal::<Halt>().await?;
        Ok(first)
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    let expected = [Status::Cancelled, Status::Done, Status::Cancelled];
    assert_eq!(statuses(&harness, id).await, expected);
    harness.signal(id, Halt(0)).await.unwrap();
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 1]));
}

async fn the_losers_are_cancelled_when_the_workflow_ends_with_it(ground: Ground) {
    for renews in [false, true] {
        let code = script(move |flow, input: Value| async move {
            if input == json!("again") {
                return Ok(0);
            }
            let kids = [Say::Wait, Say::Give(1)].map(|say| flow.child::<Kid>(say));
            let (_, first) = flow.select(Vec::from(kids)).cancel_rest().await?;
            match renews {
                true => flow.continue_as_new("again"),
                false => Ok(first),
            }
        });
        let mut harness = ground.runs(code).await;
        let id = ran(&mut harness, ()).await;
        harness.expect(id).await.is_done();
        let expected = [Status::Cancelled, Status::Done];
        assert_eq!(statuses(&harness, id).await, expected, "renews: {renews}");
    }
}

async fn a_signal_of_a_loser_stays_in_the_inbox(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow
            .select((flow.signal::<Go>(), flow.child::<Kid>(Say::Wait)))
            .await?;
        let OneOf2::Second(child) = first else {
            return Ok((0, 0));
        };
        let Go(later) = flow.signal::<Go>().await?;
        Ok((child, later))
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    let kid = children(&harness, id).await[0].id;
    let mut others = ground.runs_children().await;
    go(&others, kid, 1).await;
    others.run().await;
    others.advance(SECOND).await;
    go(&others, id.get(), 2).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 2]));
}

async fn a_winner_that_has_failed_is_the_error_of_the_selection(ground: Ground) {
    let code = script(|flow, _| async move {
        let broken = flow.child::<Kid>(Say::SleepThenFail(10, "broken".into()));
        let error = flow.select((flow.sleep(HOUR), broken)).await.unwrap_err();
        let group = flow.all((
            flow.child::<Kid>(Say::Wait),
            flow.activity(Fails, "deep".into()),
        ));
        let deep = flow.select((group, flow.sleep(HOUR))).await.unwrap_err();
        Ok((error.kind().as_str(), error.to_string(), deep.to_string()))
    });
    let seen = result_of(&ground, code, ()).await;
    let expected = json!(["child_failed", "kid failed: broken", "fails failed: deep"]);
    assert_eq!(seen, expected);
}

async fn a_group_wins_when_it_is_complete(ground: Ground) {
    let code = script(|flow, _| async move {
        let kid = |ms| flow.child::<Kid>(Say::Sleep(ms, ms));
        let first = flow.select((flow.all((kid(1), kid(50))), kid(60), (kid(2), kid(70))));
        Ok(match first.await? {
            OneOf3::First(both) => json!(both),
            OneOf3::Second(n) => json!(n),
            OneOf3::Third(both) => json!(["third", both]),
        })
    });
    assert_eq!(result_of(&ground, code, ()).await, json!([1, 50]));
}

async fn an_empty_group_wins_at_once(ground: Ground) {
    let code = script(|flow, _| async move {
        let first = flow.select((flow.signal::<Go>(), flow.all(()))).await?;
        Ok(matches!(first, OneOf2::Second(())))
    });
    assert_eq!(result_of(&ground, code, ()).await, json!(true));
}

async fn a_selection_of_nothing_is_refused(ground: Ground) {
    let code = script(|flow, _| async move {
        let none = Vec::<outlast::workflow::Call<'_, u64>>::new();
        let error = flow.select(none).await.unwrap_err();
        Ok(error.kind().as_str())
    });
    assert_eq!(result_of(&ground, code, ()).await, json!("invalid"));
}

async fn the_choice_is_recorded_and_stays_over_reruns(ground: Ground) {
    let code = script(|flow, _| async move {
        let kids = [30, 10, 20].map(|ms| flow.child::<Kid>(Say::Sleep(ms, ms)));
        let first = flow.select(Vec::from(kids)).await?;
        flow.sleep(SECOND).await?;
        Ok(first)
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    harness.advance(Duration::from_millis(10)).await;
    harness.run().await;
    let choice = |events: &[Event]| data(the(events, EventKind::SelectionResolved));
    let before = choice(&history(&harness, id, 1).await);
    assert_eq!(before, json!({"winner": 1}));
    harness.crash::<Running<Script>>("run", Point::BeforeCommit);
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 10]));
    assert_eq!(choice(&history(&harness, id, 1).await), before);
}

async fn a_selection_is_woken_by_whichever_comes(ground: Ground) {
    let code = script(|flow, _| async move {
        let pair = flow.all((flow.child::<Kid>(Say::Wait), flow.child::<Kid>(Say::Wait)));
        let first = flow
            .select((pair, flow.signal::<Go>(), flow.sleep(HOUR)))
            .await?;
        Ok(match first {
            OneOf3::First(pair) => json!(pair),
            OneOf3::Second(Go(n)) => json!(n),
            OneOf3::Third(()) => json!(null),
        })
    });
    let mut harness = ground.runs(code).await;
    let id = ran(&mut harness, ()).await;
    let kids = children(&harness, id).await;
    go(&harness, kids[0].id, 1).await;
    harness.run().await;
    harness.expect(id).await.awaits_children();
    go(&harness, kids[1].id, 2).await;
    harness.run().await;
    assert_eq!(output(&get(&harness, id).await), json!([1, 2]));
}

/// Whoever was not started, since something else was there already, is not in the history.
async fn what_is_there_already_wins_and_is_run_again(ground: Ground) {
    let code = script(|flow, _| async move {
        let failed = flow.start_child::<Kid>(Say::Fail("broken".into())).await?;
        failed.join().await.unwrap_err();
        let kid = || flow.child::<Kid>(Say::Wait);
        let selected = flow
            .select((kid(), flow.sleep(HOUR), flow.signal::<Go>()))
            .await?;
        let raced = {
            let kid = async { kid().await };
            let signal = async { flow.signal::<Go>().await };
            futures_util::pin_mut!(kid, signal);
            match futures_util::future::select(kid, signal).await {
                futures_util::future::Either::Left(_) => false,
                futures_util::future::Either::Right((signal, _)) => signal?.0 == 2,
            }
        };
        let grouped = flow.all((kid(), failed.join())).await.is_err();
        flow.sleep(SECOND).await?;
        number(&flow, "last", 1).await?;
        Ok((matches!(selected, OneOf3::Third(Go(1))), raced, grouped))
    });
    let mut harness = ground.runs(code).await;
    let id = begin(&harness, ()).await;
    go(&harness, id.get(), 1).await;
    go(&harness, id.get(), 2).await;
    harness.run_all().await;
    assert_eq!(output(&get(&harness, id).await), json!([true, true, true]));
    let told = told(&harness, id).await;
    assert!(!told.contains(&"timer_scheduled 4".to_owned()), "{told:?}");
    assert_eq!(statuses(&harness, id).await, [Status::Failed]);
    let timers = told.iter().filter(|it| it.starts_with("timer_scheduled"));
    assert_eq!(timers.count(), 1, "{told:?}");
}
