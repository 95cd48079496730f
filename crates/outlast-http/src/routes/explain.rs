//! The sentence that says what an instance waits for, and its liveness.

use crate::access::tokens::TokenScope;
use crate::api::Api;
use crate::problem::Problem;
use outlast::client::Explanation;
use outlast::workflow::Waits;
use outlast_core::Instance;

/// Returns sentence and liveness, reduced to what a token with this scope may see.
pub(crate) async fn explanation(
    api: &Api,
    scope: &TokenScope,
    instance: &Instance,
    waits: Option<Waits>,
) -> Result<Explanation, Problem> {
    if scope.is_everything() || instance.partition_key.is_none() {
        return Ok(api.admin().explain_with(instance, waits).await?);
    }
    // The instances ahead of it in the partition line may be outside the scope.
    let alone = Instance {
        partition_key: None,
        ..instance.clone()
    };
    Ok(api.admin().explain_with(&alone, waits).await?)
}
