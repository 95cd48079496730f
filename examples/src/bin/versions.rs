//! A deploy with live instances: what may change in place, and what needs a new version.
//!
//! A subscription that started before the deploy is finished by its original code, beside new
//! ones. A node that has not been deployed yet leaves unknown versions to other nodes.
//!
//! ```sh
//! cargo run -p outlast-examples --bin versions
//! ```

use outlast::Status;
use outlast::prelude::*;
use outlast::store::{Count, Filter};
use outlast_examples::{engine_on, shared_database};

#[derive(Signal, Serialize, Deserialize)]
struct Paid;

/// The first version: a trial, then the bill.
mod v1 {
    use super::*;

    pub struct Subscription;

    #[steps]
    pub enum Term {
        Trial { customer: String },
        Bill { customer: String },
    }

    impl Machine for Subscription {
        const NAME: &'static str = "subscription";
        const QUEUE: &'static str = "subscriptions";
        type State = Term;
        type Output = String;

        async fn step(&self, term: Term, _cx: &Context) -> StepResult<Self> {
            match term {
                Term::Trial { customer } => wait_for::<Paid>().then(Term::Bill { customer }),
                Term::Bill { customer } => done(format!("{customer} pays for the basics")),
            }
        }
    }
}

/// The same version with a compatible change. A new field has a default for old rows, and a
/// renamed step keeps its old name as an alias.
mod v1_changed {
    use super::*;

    pub struct Subscription;

    #[steps]
    pub enum Term {
        Trial {
            customer: String,
        },
        #[serde(alias = "bill")]
        Invoice {
            customer: String,
            #[serde(default)]
            discount: u8,
        },
    }

    impl Machine for Subscription {
        const NAME: &'static str = "subscription";
        const QUEUE: &'static str = "subscriptions";
        type State = Term;
        type Output = String;

        async fn step(&self, term: Term, _cx: &Context) -> StepResult<Self> {
            match term {
                Term::Trial { customer } => wait_for::<Paid>().then(Term::Invoice {
                    customer,
                    discount: 10,
                }),
                Term::Invoice { customer, discount } => {
                    done(format!("{customer} pays for the basics, {discount} % less"))
                }
            }
        }
    }
}

/// The next version, with other steps and states.
mod v2 {
    use super::*;

    pub struct Subscription;

    #[steps]
    pub enum Term {
        Choose { customer: String, plan: String },
        Start { customer: String, plan: String },
    }

    impl Machine for Subscription {
        const NAME: &'static str = "subscription";
        const VERSION: i32 = 2;
        const QUEUE: &'static str = "subscriptions";
        type State = Term;
        type Output = String;

        async fn step(&self, term: Term, _cx: &Context) -> StepResult<Self> {
            match term {
                Term::Choose { customer, plan } => {
                    wait_for::<Paid>().then(Term::Start { customer, plan })
                }
                Term::Start { customer, plan } => done(format!("{customer} pays for the {plan}")),
            }
        }
    }
}

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());

    // Before the deploy: two customers are in their trial.
    let old = engine_on(&database)
        .await?
        .register(v1::Subscription)
        .start()
        .await?;
    let mut trials = Vec::new();
    for customer in ["ada", "bob"] {
        let customer = customer.to_owned();
        let trial = v1::Subscription::with(v1::Term::Trial { customer });
        let trial = old.start(trial).await?;
        trial.settled().timeout(MINUTE).await?;
        trials.push(trial.id().get());
    }

    // During the deploy: a caller starts the new version while only the old program runs.
    let eve = v2::Subscription::with(v2::Term::Choose {
        customer: "eve".into(),
        plan: "library".into(),
    });
    let eve = old.start(eve).await?;
    println!("eve {}", eve.explain().await?);
    let waits = eve.instance().await?;
    assert_eq!((waits.status, waits.attempt), (Status::Runnable, 0));
    let eve = eve.id();
    old.shutdown().await?;

    // After a compatible change, the same version continues with the old rows.
    let changed = engine_on(&database)
        .await?
        .register(v1_changed::Subscription)
        .start()
        .await?;
    let ada = changed
        .handle::<v1_changed::Subscription>(trials[0])
        .await?;
    ada.signal(Paid).await?;
    let ada = ada.output().timeout(MINUTE).await?;
    println!("{ada}");
    assert_eq!(ada, "ada pays for the basics, 0 % less");
    changed.shutdown().await?;

    // After an incompatible change, both versions run side by side until no instance of the old
    // one is live.
    let engine = engine_on(&database)
        .await?
        .register(v1::Subscription)
        .register(v2::Subscription)
        .start()
        .await?;
    let bob = engine.handle::<v1::Subscription>(trials[1]).await?;
    bob.signal(Paid).await?;
    let bob = bob.output().timeout(MINUTE).await?;
    assert_eq!(bob, "bob pays for the basics");
    let eve = engine.handle(eve).await?;
    eve.signal(Paid).await?;
    let eve = eve.output().timeout(MINUTE).await?;
    assert_eq!(eve, "eve pays for the library");

    // The old version may be removed when none of its instances is live.
    let left = engine.client().count(still_of_version(1)).await?;
    println!("of version 1 there are left: {left:?}");
    assert_eq!(left, Count::Exactly(0));
    engine.shutdown().await
}

fn still_of_version(version: i32) -> Filter {
    Filter {
        machine: Some("subscription".into()),
        version: Some(version),
        statuses: Status::ALL
            .into_iter()
            .filter(|status| !status.is_terminal())
            .collect(),
        ..Filter::default()
    }
}
