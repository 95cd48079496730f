//! Keys in requests: as text, or in hexadecimal.
//!
//! A member or parameter of its own has the hexadecimal form. So a text means the same as ever,
//! whatever it looks like.

use crate::problem::Problem;
use crate::requests::extract::{Path, read};
use crate::requests::query::flag;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use outlast_core::{KeyText, limits};
use serde::Deserialize;

/// Reads a key to look for, from one of two members.
pub(crate) fn given(
    what: &str,
    text: Option<&str>,
    hex: Option<&str>,
) -> Result<Option<String>, Problem> {
    match (text, hex) {
        (Some(_), Some(_)) => Err(Problem::invalid(format!(
            "give either {what} or {what}_hex, not both"
        ))),
        (None, Some(digits)) => Ok(Some(KeyText::from_hex(digits)?.into())),
        (text, None) => Ok(text.map(str::to_owned)),
    }
}

/// Reads a key to store, from one of two members.
pub(crate) fn new(
    what: &'static str,
    text: Option<&str>,
    hex: Option<&str>,
) -> Result<Option<String>, Problem> {
    if let Some(text) = text {
        limits::check_typed_key(what, text)?;
    }
    given(what, text, hex)
}

/// How the key of the path is written.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct KeyParams {
    /// Whether the key of the path is in hexadecimal. Default: `false`.
    #[param(value_type = Option<bool>)]
    hex: Option<String>,
}

/// A machine and a correlation key, from the path, which may have more parameters.
pub(crate) struct KeyPath {
    pub(crate) machine: String,
    /// As stored.
    pub(crate) key: String,
}

#[derive(Deserialize)]
struct Names {
    machine: String,
    key: String,
}

impl<S: Send + Sync> FromRequestParts<S> for KeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<KeyPath, Problem> {
        let Path(Names { machine, key }) = Path::<Names>::from_request_parts(parts, state).await?;
        let params: KeyParams = read(parts.uri.query().unwrap_or_default())?;
        let key = match flag("hex", params.hex.as_deref())? {
            true => KeyText::from_hex(&key)?.into(),
            false => key,
        };
        Ok(KeyPath { machine, key })
    }
}
