//! Asks a person, and decides alone after a while. A cancel first releases the reserved money.

use super::work;
use outlast::Outcome;
use outlast::prelude::*;

/// An expense that needs an approval.
pub(in crate::demo) struct Approval;

/// The steps of an approval.
#[steps]
pub(in crate::demo) enum Request {
    Ask {
        expense: u64,
        amount: u64,
    },
    Decide {
        expense: u64,
        amount: u64,
    },
    /// The step of a cancel.
    Release {
        expense: u64,
        amount: u64,
    },
}

/// Approves the expense.
#[derive(Signal, Serialize, Deserialize)]
pub(in crate::demo) struct Approved {
    pub(in crate::demo) by: String,
}

/// Rejects the expense.
#[derive(Signal, Serialize, Deserialize)]
pub(in crate::demo) struct Rejected {
    pub(in crate::demo) by: String,
}

impl Machine for Approval {
    const NAME: &'static str = "approval";
    type State = Request;
    type Output = String;

    async fn step(&self, state: Request, cx: &Context) -> StepResult<Self> {
        match state {
            Request::Ask { expense, amount } => wait_for::<(Approved, Rejected)>()
                .timeout(Duration::from_secs(45))
                .then(Request::Decide { expense, amount }),
            Request::Decide { expense, amount } => {
                work(Duration::from_secs(1)).await;
                if let Some(rejected) = cx.received::<Rejected>()? {
                    return fail(format!("rejected by {}", rejected.by));
                }
                match cx.received::<Approved>()? {
                    Some(approved) => {
                        done(format!("expense {expense} approved by {}", approved.by))
                    }
                    // Nobody decided: small amounts need no approval.
                    None if amount < 100 => done(format!("expense {expense} needs no approval")),
                    None => Ok(Outcome::cancelled("nobody answered in time")),
                }
            }
            Request::Release { expense, amount } => {
                work(Duration::from_millis(2_500)).await;
                let why = cx.cancel_reason().unwrap_or("cancelled");
                Ok(Outcome::cancelled(format!(
                    "{why}; released {amount} for expense {expense}"
                )))
            }
        }
    }

    /// The amount was reserved with the request, and is released before the end.
    async fn on_cancel(&self, state: Request, _cx: &Context) -> StepResult<Self> {
        match state {
            Request::Ask { expense, amount }
            | Request::Decide { expense, amount }
            | Request::Release { expense, amount } => next(Request::Release { expense, amount }),
        }
    }
}
