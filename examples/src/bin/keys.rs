//! Two kinds of keys. A correlation key identifies an instance and keeps it unique. A partition
//! key selects instances that run one at a time.
//!
//! ```sh
//! cargo run -p outlast-examples --bin keys
//! ```

use outlast::prelude::*;
use outlast::store::Scope;
use outlast::{Note, SignalError, Status};
use std::collections::HashMap;
use std::sync::Mutex;

#[derive(Serialize, Deserialize)]
struct Amount {
    account: String,
    amount: i64,
}

#[job]
async fn transfer(args: Amount, ledger: Data<Ledger>) -> std::io::Result<i64> {
    // Reads, computes and writes without a lock: no other transfer of this account runs meanwhile.
    let before = ledger.balance(&args.account);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let after = before + args.amount;
    ledger.write(&args.account, after);
    Ok(after)
}

/// A ledger that would lose amounts if two transfers wrote to one account at a time.
#[derive(Default)]
struct Ledger {
    balances: Mutex<HashMap<String, i64>>,
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

#[steps]
enum Page {
    Gather,
    Print,
}

#[derive(Signal, Serialize, Deserialize)]
struct Go;

impl Machine for Report {
    const NAME: &'static str = "report";
    type State = Page;
    type Output = ();

    async fn step(&self, page: Page, _cx: &Context) -> StepResult<Self> {
        match page {
            Page::Gather => wait_for::<Go>().then(Page::Print),
            Page::Print => done(()),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let engine = outlast_examples::engine()
        .await?
        .register(transfer)
        .register(Report)
        .provide(Ledger::default())
        .start()
        .await?;
    let client = engine.client();

    // There are a hundred slots, but the transfers of one account run one after the other, in the
    // order of their start.
    let transfers = (1..=20).map(|amount| {
        let account = if amount % 2 == 0 { "even" } else { "odd" };
        transfer::with(Amount {
            account: account.into(),
            amount,
        })
        .partition_key(format!("account:{account}"))
    });
    let mut balances = Vec::new();
    for started in client.start_many(transfers).await? {
        balances.push(started.output().timeout(MINUTE).await?);
    }
    println!("odd {}, even {}", balances[18], balances[19]);
    assert_eq!(balances[18..], [100, 110]);

    // A key is an address. One instance of its machine holds it at a time.
    let march = || Report::with(Page::Gather).key("report:march");
    let first = engine.start(march()).await?;
    let second = engine.start(march()).await?;
    assert!(first.is_new() && !second.is_new());
    // The second handle is that of the holder.
    assert_eq!(first.id(), second.id());
    client.signal(Report::key("report:march"), Go).await?;
    first.output().timeout(MINUTE).await?;

    // The instance has finished and released its key, so the signal has no target.
    let lost = client.signal(Report::key("report:march"), Go).await;
    assert!(matches!(lost, Err(SignalError::NoTarget { .. })));
    // The key still finds it.
    let found = engine.handle::<Report>("report:march").await?;
    assert_eq!(found.id(), first.id());

    // A key can have any bytes, for example those of a digest.
    let digest = [0x00_u8, 0xff, 0x0a, 0x80].repeat(8);
    let print = Report::with(Page::Print).key(&digest);
    let printed = engine.start(print).await?;
    assert_eq!(engine.handle::<Report>(&digest).await?.id(), printed.id());
    printed.output().timeout(MINUTE).await?;

    // At most once a day: the key contains the day, and is held until the instance is removed.
    let daily = || {
        Report::with(Page::Print)
            .key("report:2026-11-17")
            .scope(Scope::FOREVER)
    };
    let today = engine.start(daily()).await?;
    today.output().timeout(MINUTE).await?;
    let again = engine.start(daily()).await?;
    println!("the second report of the day: {again:?}");
    assert!(!again.is_new());
    // The database may contain rows of an earlier run of this example.
    let note = Note::by("keys").because("the example is over");
    client.admin().delete(&today, note).await?;

    // At most one waiting instance: the key is released when the instance is claimed.
    let waiting = Scope::of([Status::Runnable])?;
    let refresh = || {
        Report::with(Page::Print)
            .key("refresh")
            .scope(waiting)
            .delay(Duration::from_millis(100))
    };
    let refreshes = client.start_many([refresh(), refresh(), refresh()]).await?;
    assert_eq!(refreshes.iter().filter(|one| one.is_new()).count(), 1);
    refreshes[0].output().timeout(MINUTE).await?;

    engine.shutdown().await?;
    Ok(())
}
