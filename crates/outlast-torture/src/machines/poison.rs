//! Steps that take their worker down, or return what cannot be stored.

use super::Effects;
use crate::crew::Poison;
use anyhow::Result;
use outlast::EngineBuilder;

/// Adds the poisonous machine, and limits what this process may eat.
pub(crate) fn register(builder: EngineBuilder, _effects: &Effects, _limits: &Poison) -> Result<EngineBuilder> {
    Ok(builder)
}
