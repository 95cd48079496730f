//! A deploy with live instances: what may change in place, and what needs a new version.
//!
//! A subscription that started before the deploy is finished by its original code, beside new
//! ones. A node that has not been deployed yet leaves unknown versions to other nodes.
//!
//! ```sh
//! cargo run -p outlast-examples --bin versions
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use outlast_examples::{engine_on, shared_database};

#[derive(Serialize, Deserialize)]
struct Paid;

impl Signal for Paid {
    const NAME: &'static str = "paid";
}

/// The first version: a trial, then the bill.
mod v1 {
    use super::*;

    pub struct Subscription;

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "step", content = "state", rename_all = "snake_case")]
    pub enum Term {
        Trial { customer: String },
        Bill { customer: String },
    }

    impl Machine for Subscription {
        const NAME: &'static str = "subscription";
        type State = Term;
        type Output = String;

        async fn step(&self, term: Term, _cx: &Context) -> StepResult<Self> {
            Ok(match term {
                Term::Trial { customer } => wait_for([Paid::NAME]).then(Term::Bill { customer }),
                Term::Bill { customer } => Outcome::done(format!("{customer} pays for the basics")),
            })
        }
    }
}

/// The same version with a compatible change. A new field has a default for old rows, and a
/// renamed step keeps its old name as an alias.
mod v1_changed {
    use super::*;

    pub struct Subscription;

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "step", content = "state", rename_all = "snake_case")]
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
        type State = Term;
        type Output = String;

        async fn step(&self, term: Term, _cx: &Context) -> StepResult<Self> {
            Ok(match term {
                Term::Trial { customer } => wait_for([Paid::NAME]).then(Term::Invoice {
                    customer,
                    discount: 10,
                }),
                Term::Invoice { customer, discount } => {
                    Outcome::done(format!("{customer} pays for the basics, {discount} % less"))
                }
            })
        }
    }
}

/// The next version, with other steps and states.
mod v2 {
    use super::*;

    pub struct Subscription;

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "step", content = "state", rename_all = "snake_case")]
    pub enum Term {
        Choose { customer: String, plan: String },
        Start { customer: String, plan: String },
    }

    impl Machine for Subscription {
        const NAME: &'static str = "subscription";
        const VERSION: i32 = 2;
        type State = Term;
        type Output = String;

        async fn step(&self, term: Term, _cx: &Context) -> StepResult<Self> {
            Ok(match term {
                Term::Choose { customer, plan } => {
                    wait_for([Paid::NAME]).then(Term::Start { customer, plan })
                }
                Term::Start { customer, plan } => {
                    Outcome::done(format!("{customer} pays for the {plan}"))
                }
            })
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let database = shared_database(folder.path());
    let patience = Duration::from_secs(10);

    // Before the deploy: two customers are in their trial.
    let old = engine_on(&database)
        .await?
        .machine(v1::Subscription)
        .queue("subscriptions", 10)
        .start()
        .await?;
    let mut trials = Vec::new();
    for customer in ["ada", "bob"] {
        let trial = v1::Term::Trial {
            customer: customer.into(),
        };
        let trial = New::<v1::Subscription>(trial).queue("subscriptions");
        let trial = old
            .insert(trial)
            .await?
            .id()
            .context("another instance holds the key")?;
        old.wait_settled(trial, patience).await?;
        trials.push(trial.get());
    }

    // During the deploy: a caller starts the new version while only the old program runs.
    let plan = v2::Term::Choose {
        customer: "eve".into(),
        plan: "library".into(),
    };
    let new = New::<v2::Subscription>(plan).queue("subscriptions");
    let eve = old
        .insert(new)
        .await?
        .id()
        .context("another instance holds the key")?;
    let waits = old.get(eve).await?.context("it is stored")?;
    let why = old.explain(&waits).await?;
    println!("eve {why}");
    ensure!(waits.status == Status::Runnable && waits.attempt == 0);
    old.shutdown().await;

    // After a compatible change, the same version continues with the old rows.
    let changed = engine_on(&database)
        .await?
        .machine(v1_changed::Subscription)
        .queue("subscriptions", 10)
        .start()
        .await?;
    changed.signal(trials[0], Paid).await?;
    let ada = Id::<v1_changed::Subscription>::of(trials[0]);
    let ada = changed.wait(ada, patience).await?;
    println!("{ada}");
    ensure!(ada == "ada pays for the basics, 0 % less");
    changed.shutdown().await;

    // After an incompatible change, both versions run side by side until no instance of the old
    // one is live.
    let engine = engine_on(&database)
        .await?
        .machine(v1::Subscription)
        .machine(v2::Subscription)
        .queue("subscriptions", 10)
        .start()
        .await?;
    engine.signal(trials[1], Paid).await?;
    let bob = Id::<v1::Subscription>::of(trials[1]);
    ensure!(engine.wait(bob, patience).await? == "bob pays for the basics");
    engine.signal(eve, Paid).await?;
    ensure!(engine.wait(eve, patience).await? == "eve pays for the library");

    // The old version may be removed when none of its instances is live.
    let left = engine.count(still_of_version(1)).await?;
    println!("of version 1 there are left: {left:?}");
    ensure!(left == outlast::Count::Exactly(0));
    engine.shutdown().await;
    Ok(())
}

fn still_of_version(version: i32) -> outlast::Filter {
    outlast::Filter {
        machine: Some("subscription".into()),
        version: Some(version),
        statuses: Status::ALL
            .into_iter()
            .filter(|status| !status.is_terminal())
            .collect(),
        ..Default::default()
    }
}
