//! Two kinds of keys. A correlation key identifies an instance and keeps it unique. A partition
//! key selects instances that run one at a time.
//!
//! ```sh
//! cargo run -p outlast-examples --bin keys
//! ```

use anyhow::{Context as _, Result, ensure};
use outlast::prelude::*;
use std::sync::Arc;
use std::sync::Mutex;

struct Transfer {
    ledger: Arc<Ledger>,
}

#[derive(Serialize, Deserialize)]
struct Amount {
    account: String,
    amount: i64,
}

impl Job for Transfer {
    const NAME: &'static str = "transfer";
    type Args = Amount;
    type Output = i64;

    async fn perform(&self, args: Amount, _cx: &Context) -> Result<i64, JobError> {
        // Reads, computes and writes without a lock: no other transfer of this account runs
        // meanwhile.
        let before = self.ledger.balance(&args.account);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let after = before + args.amount;
        self.ledger.write(&args.account, after);
        Ok(after)
    }
}

/// A ledger that would lose amounts if two transfers wrote to one account at a time.
#[derive(Default)]
struct Ledger {
    balances: Mutex<std::collections::HashMap<String, i64>>,
}

impl Ledger {
    fn balance(&self, account: &str) -> i64 {
        let balances = self.balances.lock().expect("the lock is not poisoned");
        balances.get(account).copied().unwrap_or(0)
    }

    fn write(&self, account: &str, balance: i64) {
        let mut balances = self.balances.lock().expect("the lock is not poisoned");
        balances.insert(account.to_owned(), balance);
    }
}

struct Report;

#[derive(Serialize, Deserialize)]
#[serde(tag = "step", content = "state", rename_all = "snake_case")]
enum Page {
    Gather,
    Print,
}

#[derive(Serialize, Deserialize)]
struct Go;

impl Signal for Go {
    const NAME: &'static str = "go";
}

impl Machine for Report {
    const NAME: &'static str = "report";
    type State = Page;
    type Output = ();

    async fn step(&self, page: Page, _cx: &Context) -> StepResult<Self> {
        Ok(match page {
            Page::Gather => wait_for([Go::NAME]).then(Page::Print),
            Page::Print => Outcome::done(()),
        })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let ledger = Arc::new(Ledger::default());
    let engine = outlast_examples::engine()
        .await?
        .machine(Transfer {
            ledger: ledger.clone(),
        })
        .machine(Report)
        .queue("default", 10)
        .start()
        .await?;
    let patience = Duration::from_secs(10);

    // There are ten slots, but the transfers of one account run one after the other, in the order
    // of their insertion.
    let transfers = (1..=20).map(|amount| {
        let account = if amount % 2 == 0 { "even" } else { "odd" };
        New::<Transfer>(Amount {
            account: account.into(),
            amount,
        })
        .partition_key(format!("account:{account}"))
    });
    for transfer in engine.insert_many(transfers).await? {
        engine.wait(transfer, patience).await?;
    }
    println!(
        "even {}, odd {}",
        ledger.balance("even"),
        ledger.balance("odd")
    );
    ensure!((ledger.balance("even"), ledger.balance("odd")) == (110, 100));

    // A key is an address. One instance of its machine holds it at a time.
    let first = engine
        .insert(New::<Report>(Page::Gather).key("report:march"))
        .await?;
    let second = engine
        .insert(New::<Report>(Page::Gather).key("report:march"))
        .await?;
    ensure!(first.is_new() && !second.is_new());
    ensure!(first.id() == second.id(), "the answer names the holder");
    engine.signal(Report::key("report:march"), Go).await?;
    engine.wait(first, patience).await?;

    // The instance has finished and released its key, so the signal has no target.
    let delivery = engine.signal(Report::key("report:march"), Go).await?;
    ensure!(delivery == Delivery::NoTarget);

    // At most once a day: the key contains the day, and is held until the instance is removed.
    let daily = || {
        New::<Report>(Page::Print)
            .key("report:2026-11-17")
            .scope(Scope::FOREVER)
    };
    let today = engine.insert(daily()).await?;
    engine.wait(today, patience).await?;
    let again = engine.insert(daily()).await?;
    println!("the second report of the day: {again:?}");
    ensure!(!again.is_new());
    // The database may contain rows of an earlier run of this example.
    let today = today.id().context("it is stored")?;
    engine
        .delete(today, Note::by("keys").because("the example is over"))
        .await?;

    // At most one waiting instance: the key is released when the instance is claimed.
    let waiting = Scope::of([Status::Runnable])?;
    let refresh = || {
        New::<Report>(Page::Print)
            .key("refresh")
            .scope(waiting)
            .delay(Duration::from_millis(100))
    };
    let refreshes = engine
        .insert_many([refresh(), refresh(), refresh()])
        .await?;
    ensure!(refreshes.iter().filter(|one| one.is_new()).count() == 1);
    engine.wait(refreshes[0], patience).await?;

    engine.shutdown().await;
    Ok(())
}
