//! What an instance waits for, in one sentence.

use crate::api::Api;
use crate::auth::TokenScope;
use crate::problem::Problem;
use outlast::workflow::Waits;
use outlast_core::Instance;

/// The sentence, as far as somebody with this reach may know.
pub(crate) async fn sentence(
    api: &Api,
    scope: &TokenScope,
    instance: &Instance,
    waits: Option<Waits>,
) -> Result<String, Problem> {
    if scope.is_everything() || instance.partition_key.is_none() {
        return Ok(api.client.explain_with(instance, waits).await?);
    }
    // Who stands before it in the line of its partition key may be somebody else's.
    let alone = Instance {
        partition_key: None,
        ..instance.clone()
    };
    Ok(api.client.explain_with(&alone, waits).await?)
}
