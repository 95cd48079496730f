//! The machines of the stage: they wait, fan out, fail, retry and end in every way.

use outlast::prelude::*;
use outlast::{History, Job, JobError, Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An order that waits for its payment.
pub(crate) struct Checkout;

#[steps]
pub(crate) enum Order {
    Start(Cart),
    Charge(Cart),
    Reserve { cart: Cart, paid: u64 },
    Ship { number: u64 },
    Notify { number: u64 },
    Refund { number: u64 },
}

/// The content of an order.
#[derive(Serialize, Deserialize)]
pub(crate) struct Cart {
    number: u64,
    customer: String,
    lines: Vec<CartLine>,
    tracking: u64,
    is_gift: bool,
}

#[derive(Serialize, Deserialize)]
struct CartLine {
    article: String,
    count: u32,
    cents: u64,
}

impl Cart {
    pub(crate) fn of(number: u64) -> Cart {
        let line = |article: &str, count, cents| CartLine {
            article: article.to_owned(),
            count,
            cents,
        };
        Cart {
            number,
            customer: "Ada Lovelace".to_owned(),
            lines: vec![
                line("table", 1, 24_900),
                line("chair", 4, 7_900),
                line("lamp", 2, 3_950),
            ],
            // Larger than the largest exact integer in JavaScript.
            tracking: 9_007_199_254_740_993,
            is_gift: number.is_multiple_of(2),
        }
    }
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct GiftWrap {
    pub(crate) paper: String,
    pub(crate) card: String,
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct PaymentConfirmed {
    pub(crate) amount: u64,
}

impl Machine for Checkout {
    const NAME: &'static str = "checkout";
    const VERSION: i32 = 2;
    type State = Order;
    type Output = String;

    async fn step(&self, state: Order, cx: &Context) -> StepResult<Self> {
        match state {
            Order::Start(cart) => wait_for::<PaymentConfirmed>()
                .timeout(HOUR)
                .then(Order::Charge(cart)),
            Order::Charge(cart) => match cx.received::<PaymentConfirmed>()? {
                Some(paid) if paid.amount == 0 => next(Order::Refund {
                    number: cart.number,
                }),
                Some(paid) => next(Order::Reserve {
                    cart,
                    paid: paid.amount,
                }),
                None => fail("payment never came"),
            },
            Order::Reserve { cart, paid } if cart.number % 10 == 3 && cx.attempt() == 0 => {
                let number = cart.number;
                let error = format_args!("the stock is being counted, order {number}, paid {paid}");
                retry(Duration::ZERO, error)
            }
            Order::Reserve { cart, .. } if cart.number % 20 == 7 => {
                fail("the warehouse does not know this article")
            }
            Order::Reserve { cart, .. } => next(Order::Ship {
                number: cart.number,
            }),
            Order::Ship { number } => next(Order::Notify { number }),
            Order::Notify { number } => done(format!("order {number} is on its way")),
            Order::Refund { .. } => Ok(Outcome::cancelled("nothing was paid")),
        }
    }
}

/// Version 1 of the same machine. Some of its instances still exist.
pub(crate) struct OldCheckout;

#[steps]
pub(crate) enum OldOrder {
    Start { number: u64 },
    Ship { number: u64 },
}

impl Machine for OldCheckout {
    const NAME: &'static str = "checkout";
    const VERSION: i32 = 1;
    type State = OldOrder;
    type Output = u64;

    async fn step(&self, state: OldOrder, _cx: &Context) -> StepResult<Self> {
        match state {
            OldOrder::Start { number } => {
                wait_for::<PaymentConfirmed>().then(OldOrder::Ship { number })
            }
            OldOrder::Ship { number } => done(number),
        }
    }
}

/// An order that is packed line by line.
pub(crate) struct Fulfilment;

#[steps]
pub(crate) enum Parcel {
    Pack { articles: Vec<String> },
    Ship,
}

impl Machine for Fulfilment {
    const NAME: &'static str = "fulfilment";
    type State = Parcel;
    type Output = u64;

    async fn step(&self, state: Parcel, cx: &Context) -> StepResult<Self> {
        match state {
            Parcel::Pack { articles } => fan_out(
                articles
                    .into_iter()
                    .map(|article| LineItem::with(Line::Pick { article })),
            )
            .then(Parcel::Ship),
            Parcel::Ship => done(cx.children::<LineItem>()?.len() as u64),
        }
    }
}

/// A line of an order. A lamp is never in stock, and a chair waits until it is restocked.
pub(crate) struct LineItem;

#[steps]
pub(crate) enum Line {
    Pick { article: String },
    Wrap { article: String },
}

impl Machine for LineItem {
    const NAME: &'static str = "line_item";
    type State = Line;
    type Output = String;

    async fn step(&self, state: Line, _cx: &Context) -> StepResult<Self> {
        match state {
            Line::Pick { article } if article == "lamp" => fail("no lamp in stock"),
            Line::Pick { article } if article == "chair" => wait_for::<Restocked>()
                .timeout(DAY)
                .then(Line::Wrap { article }),
            Line::Pick { article } => next(Line::Wrap { article }),
            Line::Wrap { article } => done(article),
        }
    }
}

#[derive(Signal, Serialize, Deserialize)]
pub(crate) struct Restocked {}

/// A mail, sent only when the mail server is well.
pub(crate) struct Mailing {
    pub(crate) is_well: Arc<AtomicBool>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) to: String,
}

impl Job for Mailing {
    const NAME: &'static str = "send_mail";
    const QUEUE: &'static str = "mail";
    const MAX_ATTEMPTS: u32 = 8;
    type Args = Mail;
    type Output = String;

    async fn perform(&self, mail: Mail, cx: &Context) -> Result<String, JobError> {
        if self.is_well.load(Ordering::SeqCst) {
            return Ok(format!("sent to {}", mail.to));
        }
        if mail.to.starts_with("storm") && cx.attempt() == 5 {
            return Err(JobError::retry_after(
                2 * HOUR,
                "the mail server is busy (451)",
            ));
        }
        Err(JobError::retry_after(
            Duration::ZERO,
            format!("mail.example does not answer to {}", mail.to),
        ))
    }
}

/// Sleeps for an hour, and records its transitions.
pub(crate) struct Patrol;

#[steps]
pub(crate) enum Watch {
    Walk,
    Rest,
}

impl Machine for Patrol {
    const NAME: &'static str = "patrol";
    const HISTORY: History = History::Transitions;
    type State = Watch;
    type Output = ();

    async fn step(&self, watch: Watch, _: &Context) -> StepResult<Self> {
        match watch {
            Watch::Walk => sleep(HOUR).then(Watch::Rest),
            Watch::Rest => done(()),
        }
    }
}
