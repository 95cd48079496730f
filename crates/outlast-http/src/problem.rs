//! Error responses: `application/problem+json` with a stable code.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use outlast_core::{Error, ErrorKind, Invalid};
use serde::Serialize;
use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $word:literal $status:ident $title:literal;)+) => {
        /// The reason why a request was refused. Programs decide by the code; each code has a page
        /// in `docs/errors/`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $code,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$code),+];

            /// Returns the code as it appears in a response.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$code => $word,)+ }
            }

            /// Returns the HTTP status of the code.
            pub fn status(self) -> StatusCode {
                match self { $(Code::$code => StatusCode::$status,)+ }
            }

            /// Returns a short title for people.
            pub fn title(self) -> &'static str {
                match self { $(Code::$code => $title,)+ }
            }
        }
    };
}

codes! {
    /// A parameter, header or field is wrong.
    InvalidRequest "invalid_request" BAD_REQUEST "The request is not valid";
    /// The body is not the JSON that the route expects.
    InvalidJson "invalid_json" BAD_REQUEST "The body is not the JSON expected";
    /// The body is too large.
    TooLarge "too_large" PAYLOAD_TOO_LARGE "The body is too large";
    /// The body is nested too deep.
    TooDeep "too_deep" BAD_REQUEST "The body is nested too deep";
    /// There is nothing at this address.
    NotFound "not_found" NOT_FOUND "Not found";
    /// There is no such history.
    NoHistory "no_history" NOT_FOUND "There is no such history";
    /// No instance would read the signal.
    NoTarget "no_target" NOT_FOUND "Nobody would read this signal";
    /// The inbox of the instance is full.
    InboxFull "inbox_full" CONFLICT "The inbox is full";
    /// The instance has not ended.
    NotEnded "not_ended" CONFLICT "The instance has not ended";
    /// The instance has neither failed nor been cancelled.
    NotFailed "not_failed" CONFLICT "The instance has not failed";
    /// The instance has already ended.
    AlreadyEnded "already_ended" CONFLICT "The instance has already ended";
    /// A token is missing or unknown.
    Unauthorized "unauthorized" UNAUTHORIZED "A token is needed";
    /// The token does not allow this.
    Forbidden "forbidden" FORBIDDEN "The token does not allow this";
    /// The `Host` header names a host that is not served.
    ForbiddenHost "forbidden_host" FORBIDDEN "This host is not served";
    /// The request came from a page of another origin.
    ForbiddenOrigin "forbidden_origin" FORBIDDEN "Pages of other origins may not ask";
    /// The address does not take this method.
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "This method is not for this address";
    /// The body is not declared as JSON.
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE "The body must be JSON";
    /// A webhook's signature is missing or wrong.
    BadSignature "bad_signature" UNAUTHORIZED "The signature is not right";
    /// A webhook's timestamp is too far from now.
    StaleTimestamp "stale_timestamp" UNAUTHORIZED "The timestamp is too far from now";
    /// The maximum number of event streams or long polls is open.
    TooManyStreams "too_many_streams" SERVICE_UNAVAILABLE "Too many streams are open";
    /// The database cannot answer now.
    Unavailable "unavailable" SERVICE_UNAVAILABLE "The database cannot answer now";
    /// The request took too long.
    Timeout "timeout" GATEWAY_TIMEOUT "It took too long";
    /// The state of the instance prevents the operation.
    Conflict "conflict" CONFLICT "Something stands in the way";
    /// The server has an internal error.
    Internal "internal" INTERNAL_SERVER_ERROR "Something is broken here";
}

/// A refusal: a code, and a sentence about this case.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            code,
            detail: detail.into(),
        }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
        Problem::new(Code::InvalidRequest, detail)
    }

    /// Reports that the instance does not exist or is outside the caller's scope. The text is the
    /// same for both, so it reveals nothing.
    pub(crate) fn no_instance(id: impl fmt::Display) -> Problem {
        Problem::new(Code::NotFound, format!("there is no instance {id}"))
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Problem {
        Problem::invalid(invalid.to_string())
    }
}

impl From<Error> for Problem {
    /// The database's message goes to the log only: it may name hosts, users and statements.
    fn from(error: Error) -> Problem {
        if let Error::Invalid { invalid, .. } = &error {
            return Problem::invalid(invalid.to_string());
        }
        let (code, detail) = match error.kind() {
            ErrorKind::Transient | ErrorKind::Closed => {
                let detail = "the database could not do it now; nothing is wrong with the request, try again";
                (Code::Unavailable, detail)
            }
            ErrorKind::Conflict => (Code::Conflict, "somebody else was there first; look again"),
            ErrorKind::Invalid => {
                let detail =
                    "the database cannot be used as it is set up; the server's log says why";
                (Code::Unavailable, detail)
            }
            ErrorKind::Corrupt => {
                let detail = "what is stored cannot be read; the server's log says what and why";
                (Code::Internal, detail)
            }
        };
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            code = code.as_str(),
            "a request failed"
        );
        Problem::new(code, detail)
    }
}

/// The body of a refusal.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// `urn:outlast:error:` and the code.
    #[schema(example = "urn:outlast:error:not_found")]
    r#type: String,
    /// The code in a few words for people.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What is wrong in this case, and what to do.
    detail: String,
    /// The code, for programs.
    #[schema(example = "not_found")]
    code: &'static str,
}

impl From<Problem> for ProblemBody {
    fn from(problem: Problem) -> ProblemBody {
        let code = problem.code;
        ProblemBody {
            r#type: format!("urn:outlast:error:{}", code.as_str()),
            title: code.title(),
            status: code.status().as_u16(),
            detail: problem.detail,
            code: code.as_str(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let code = self.code;
        let mut response = (code.status(), axum::Json(ProblemBody::from(self))).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if code.status() == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
