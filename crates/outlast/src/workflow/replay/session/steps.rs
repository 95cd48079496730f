//! Runs the steps of a workflow and records their results.

use super::Session;
use crate::machine::{Context, Decided, Trouble};
use crate::workflow::replay::runtime::MayRun;
use outlast_core::{NewEvent, Timestamp};
use std::future::poll_fn;
use std::task::Poll;

impl Session {
    /// Runs steps until one has ended or the first timer beside them is due.
    pub(super) async fn run_steps(
        &mut self,
        cx: &Context,
        due: Option<Timestamp>,
    ) -> Result<(), Trouble> {
        self.flow.lock().let_steps_run();
        let come = tokio::select! {
            biased;
            () = self.run_on() => Ok(false),
            come = come(cx, due) => come.map(|()| true),
        };
        self.flow.lock().may_run = MayRun::No;
        if come? {
            let timers = self.arrived_timers(cx).await?;
            self.apply_arrivals(timers);
        }
        Ok(())
    }

    async fn run_on(&mut self) {
        poll_fn(|cx| {
            self.flow.lock().waker = Some(cx.waker().clone());
            self.run_code();
            let has_news = {
                let runtime = self.flow.lock();
                !runtime.finished.is_empty()
                    || runtime.may_run == MayRun::No
                    || runtime.blocked.is_some()
            };
            let is_over = self.code.is_none() && self.handling.is_empty();
            match has_news || is_over || self.violation.is_some() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    fn take_finished(&self) -> Option<NewEvent> {
        self.flow.lock().take_finished()
    }

    /// Records the results of steps. Returns the decision to write now, if any.
    ///
    /// The code receives a result at once, and its next calls are written with it. Code that has
    /// read the time receives the result after the write: only then the time is known.
    pub(super) fn record_finished(&mut self) -> Option<Decided> {
        let continues_at_once = {
            let mut runtime = self.flow.lock();
            runtime.record_notes(true);
            let continues_at_once = !runtime.was_asked_for_now();
            if !continues_at_once {
                runtime.record_waiting();
            }
            continues_at_once
        };
        while let Some(recorded) = self.take_finished() {
            if self.is_over() && !self.needs_replay() {
                // The code has ended without it.
                self.flow.lock().finished.clear();
                break;
            }
            match continues_at_once && !self.stops() {
                true => self.record(recorded),
                false => self.flow.lock().history.push(recorded),
            }
        }
        (!continues_at_once).then(|| self.write_recorded())
    }
}

/// Waits until this time by the database's clock; forever when there is none.
async fn come(cx: &Context, due: Option<Timestamp>) -> Result<(), Trouble> {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    loop {
        let now = cx.client().admin().now().await.map_err(Trouble::Store)?;
        if due <= now {
            return Ok(());
        }
        tokio::time::sleep(due.since(now)).await;
    }
}
