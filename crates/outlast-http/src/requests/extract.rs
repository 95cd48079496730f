//! Extractors for the routes. Each reports an invalid request as a [`Problem`].

use crate::access::tokens::{Caller, Role};
use crate::limits::{BODY_BYTES_MAX, BODY_DEPTH_MAX, is_too_deep};
use crate::problem::{Code, Problem};
use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use outlast_core::{InstanceId, Json as Document};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::Arc;
use utoipa::IntoParams;

macro_rules! caller {
    ($(#[$doc:meta])* $name:ident $role:ident) => {
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) Arc<Caller>);

        impl<S: Sync> FromRequestParts<S> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<$name, Problem> {
                caller(parts, Role::$role).map($name)
            }
        }
    };
}

caller! {
    /// A caller with the role `read`.
    MayRead Read
}
caller! {
    /// A caller with the role `signal`.
    MaySignal Signal
}
caller! {
    /// A caller with the role `operate`.
    MayOperate Operate
}

fn caller(parts: &Parts, role: Role) -> Result<Arc<Caller>, Problem> {
    // A route without the guard has no caller and stays closed.
    let caller = parts
        .extensions
        .get::<Arc<Caller>>()
        .ok_or_else(|| Problem::new(Code::Unauthorized, "the request has no caller"))?;
    if caller.role < role {
        let detail = format!(
            "this requires the role {role:?}; the token has {:?}",
            caller.role.as_str(),
            role = role.as_str()
        );
        return Err(Problem::new(Code::Forbidden, detail));
    }
    Ok(caller.clone())
}

/// The id of an instance, the only parameter of the path.
pub(crate) struct Id(pub(crate) InstanceId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await?;
        parse_id(&text).map(Id)
    }
}

/// Parses an id of decimal digits.
pub(crate) fn parse_id(text: &str) -> Result<InstanceId, Problem> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|_| is_plain);
    id.map(InstanceId).ok_or_else(|| {
        Problem::invalid(format!(
            "{text:?} is not an instance id; ids are whole numbers"
        ))
    })
}

/// The parameters of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(path)| Path(path))
            .map_err(|rejection| Problem::invalid(rejection.body_text()))
    }
}

/// The parameters of the query, of one type or two. Unknown parameters are refused, because a
/// misspelt filter that is ignored would match everything.
pub(crate) struct Query<A, B = NoParams>(pub(crate) A, pub(crate) B);

/// No parameters.
#[derive(Debug, serde::Deserialize, IntoParams)]
pub(crate) struct NoParams {}

impl<A, B, S> FromRequestParts<S> for Query<A, B>
where
    A: DeserializeOwned + IntoParams,
    B: DeserializeOwned + IntoParams,
    S: Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<A, B>, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        check_names::<A, B>(query)?;
        Ok(Query(read(query)?, read(query)?))
    }
}

fn check_names<A: IntoParams, B: IntoParams>(query: &str) -> Result<(), Problem> {
    let known = A::into_params(|| None)
        .into_iter()
        .chain(B::into_params(|| None));
    let known: BTreeSet<String> = known.map(|parameter| parameter.name).collect();
    let given: Vec<(String, String)> = read(query)?;
    let unknown = given.iter().find(|(name, _)| !known.contains(name));
    let Some((name, _)) = unknown else {
        return Ok(());
    };
    let known: Vec<_> = known.into_iter().collect();
    let known = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    Err(Problem::invalid(format!(
        "unknown parameter {name:?}; allowed: {known}"
    )))
}

/// Reads parameters of a query. Ignores others.
pub(crate) fn read<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    serde_html_form::from_str(query)
        .map_err(|error| Problem::invalid(format!("invalid query: {error}")))
}

/// A body of JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Body<T>, Problem> {
        let (parts, body) = request.into_parts();
        check_media_type(&parts.headers)?;
        let bytes = read_body(&parts.headers, body).await?;
        parse_object(&bytes).map(Body)
    }
}

/// A JSON body that may be absent, and whose members are all optional.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<OptionalBody<T>, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read_body(&parts.headers, body).await?;
        if bytes.is_empty() {
            return Ok(OptionalBody(T::default()));
        }
        check_media_type(&parts.headers)?;
        parse_object(&bytes).map(OptionalBody)
    }
}

/// A body of any JSON value. An absent body is null.
pub(crate) struct AnyBody(pub(crate) Document);

impl<S: Sync> FromRequest<S> for AnyBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<AnyBody, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read_body(&parts.headers, body).await?;
        if bytes.is_empty() {
            return Ok(AnyBody(Document::null()));
        }
        check_media_type(&parts.headers)?;
        parse(&bytes).map(AnyBody)
    }
}

/// The body as received, within the bounds.
pub(crate) struct RawBody(pub(crate) Bytes);

impl<S: Sync> FromRequest<S> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<RawBody, Problem> {
        let (parts, body) = request.into_parts();
        read_body(&parts.headers, body).await.map(RawBody)
    }
}

/// An HTML form on another site cannot send this media type without a preflight request.
fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let declared = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = declared
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case("application/json") => Ok(()),
        Some(other) => {
            let detail = format!("the Content-Type is {other:?}; send application/json");
            Err(Problem::new(Code::UnsupportedMediaType, detail))
        }
        None => Err(Problem::new(
            Code::UnsupportedMediaType,
            "send Content-Type: application/json",
        )),
    }
}

async fn read_body(headers: &HeaderMap, body: axum::body::Body) -> Result<Bytes, Problem> {
    let too_large = || {
        Problem::new(
            Code::TooLarge,
            format!("the body is larger than {BODY_BYTES_MAX} bytes"),
        )
    };
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok());
    if declared
        .and_then(|length| length.parse::<usize>().ok())
        .is_some_and(|length| length > BODY_BYTES_MAX)
    {
        return Err(too_large());
    }
    to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            if error.is::<http_body_util::LengthLimitError>() {
                return too_large();
            }
            cause = error.source();
        }
        Problem::invalid("the body ended early")
    })
}

/// Parses a JSON object. Serde would also accept an array of the values, in an order that is not
/// part of the API.
fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    check_depth(bytes)?;
    if bytes.trim_ascii_start().starts_with(b"[") {
        let detail = "the body must be an object, not a list";
        return Err(Problem::new(Code::InvalidJson, detail));
    }
    read_json(bytes)
}

/// Parses a body after checking its depth.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    check_depth(bytes)?;
    read_json(bytes)
}

fn check_depth(bytes: &[u8]) -> Result<(), Problem> {
    if is_too_deep(bytes) {
        let detail = format!("the body is nested more than {BODY_DEPTH_MAX} levels deep");
        return Err(Problem::new(Code::TooDeep, detail));
    }
    Ok(())
}

fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(Code::InvalidJson, format!("invalid body: {error}")))
}
