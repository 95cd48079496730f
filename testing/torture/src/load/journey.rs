//! Workflows, some of which receive signals and updates, are ended early, or have children ended.

use super::Load;
use crate::machines::{Journey, Trip, Word};
use anyhow::Result;
use outlast::prelude::*;
use outlast::{InstanceId, Workflow};

impl Load {
    pub(super) async fn start_journey(&self, random: &mut fastrand::Rng) -> Result<()> {
        let token = self.token();
        let legs = random.u32(1..4);
        let mut new = Journey::with(Trip {
            token,
            depth: random.u32(..3),
            leg: 1,
            legs,
        });
        // Some take too long as a whole, and some in one of their runs.
        let lot = random.u32(..6);
        if lot == 0 {
            new = new.timeout(Duration::from_millis(random.u64(100..4_000)));
        } else if lot == 1 {
            new = new.run_timeout(Duration::from_millis(random.u64(50..1_500)));
        }
        let is_ended = self.mix.operators && random.u32(..3) == 0;
        let result = (!is_ended && lot > 1).then(|| legs.to_string());
        let Some(id) = self.insert(token, new, result).await? else {
            return Ok(());
        };
        let id: InstanceId = id.into();
        if random.bool() {
            self.follow(
                move |load, random| async move { load.send_to_journey(id, random).await },
                random.fork(),
            );
        }
        if is_ended && random.bool() {
            // Without signals: the end would drop them.
            self.end_and_retry(id, 1_000, random.fork());
            return Ok(());
        }
        if is_ended {
            self.follow(
                move |load, random| async move { load.end_some_of(id, random).await },
                random.fork(),
            );
        }
        self.follow(
            move |load, random| async move { load.send_words(id, random).await },
            random.fork(),
        );
        Ok(())
    }

    async fn send_words(&self, id: InstanceId, mut random: fastrand::Rng) {
        for _ in 0..random.u32(..4) {
            tokio::time::sleep(Duration::from_millis(random.u64(..300))).await;
            let number = random.u64(..1 << 53);
            self.signal(id, || Word { number }, format!("word:{number}"))
                .await;
        }
    }
}
