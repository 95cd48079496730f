//! One parent and its children with a window of fifty, until the join; and as many without a
//! window.

use super::{Run, fanout};
use crate::figure::Sample;
use anyhow::Result;

/// The size of the window.
const WINDOW: usize = 50;

pub(super) async fn run(run: &Run<'_>) -> Result<Vec<Sample>> {
    Ok(vec![
        Sample::seconds("window", fanout::fan_out(run, Some(WINDOW)).await?),
        Sample::seconds("fanout of as many", fanout::fan_out(run, None).await?),
    ])
}
