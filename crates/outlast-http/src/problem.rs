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
    InvalidRequest "invalid_request" BAD_REQUEST "Invalid request";
    /// The body is not the JSON that the route expects.
    InvalidJson "invalid_json" BAD_REQUEST "Invalid JSON body";
    /// The body is too large.
    TooLarge "too_large" PAYLOAD_TOO_LARGE "Body too large";
    /// Body nested too deeply.
    TooDeep "too_deep" BAD_REQUEST "Body nested too deeply";
    /// There is nothing at this address.
    NotFound "not_found" NOT_FOUND "Not found";
    /// No such history.
    NoHistory "no_history" NOT_FOUND "No such history";
    /// The code of the workflow handles no request of this name.
    NoHandler "no_handler" NOT_FOUND "No such request";
    /// The code of the workflow is not in this server.
    NoCode "no_code" NOT_IMPLEMENTED "Code not on this server";
    /// The code refused the request, or failed.
    RequestFailed "request_failed" UNPROCESSABLE_ENTITY "Request failed";
    /// The history of the workflow does not fit its code.
    Blocked "blocked" CONFLICT "Workflow blocked";
    /// No instance would read the signal.
    NoTarget "no_target" NOT_FOUND "No live instance to signal";
    /// The inbox of the instance is full.
    InboxFull "inbox_full" CONFLICT "Inbox full";
    /// Instance not finished.
    NotEnded "not_ended" CONFLICT "Instance not finished";
    /// The instance has neither failed nor been cancelled.
    NotFailed "not_failed" CONFLICT "Instance not failed";
    /// Instance already finished.
    AlreadyEnded "already_ended" CONFLICT "Instance already finished";
    /// A token is missing or unknown.
    Unauthorized "unauthorized" UNAUTHORIZED "Token required";
    /// Not allowed with this token.
    Forbidden "forbidden" FORBIDDEN "Not allowed with this token";
    /// The `Host` header names a host that is not served.
    ForbiddenHost "forbidden_host" FORBIDDEN "Host not allowed";
    /// The request came from a page of another origin.
    ForbiddenOrigin "forbidden_origin" FORBIDDEN "Origin not allowed";
    /// The address does not take this method.
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "Method not allowed";
    /// The body is not declared as JSON.
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE "Body must be JSON";
    /// A webhook's signature is missing or wrong.
    BadSignature "bad_signature" UNAUTHORIZED "Invalid signature";
    /// A webhook's timestamp is too far from now.
    StaleTimestamp "stale_timestamp" UNAUTHORIZED "Timestamp out of range";
    /// The maximum number of event streams or long polls is open.
    TooManyStreams "too_many_streams" SERVICE_UNAVAILABLE "Too many open streams";
    /// Database unavailable.
    Unavailable "unavailable" SERVICE_UNAVAILABLE "Database unavailable";
    /// The request took too long.
    Timeout "timeout" GATEWAY_TIMEOUT "Request timed out";
    /// The state of the instance prevents the operation.
    Conflict "conflict" CONFLICT "Conflict";
    /// The server has an internal error.
    Internal "internal" INTERNAL_SERVER_ERROR "Internal error";
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
        Problem::new(Code::NotFound, format!("instance {id} does not exist"))
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
                let detail = "the database is temporarily unavailable; try again";
                (Code::Unavailable, detail)
            }
            ErrorKind::Conflict => (
                Code::Conflict,
                "another request changed it first; read it again and retry",
            ),
            ErrorKind::Invalid => {
                let detail = "the database is misconfigured; see the server log";
                (Code::Unavailable, detail)
            }
            ErrorKind::Corrupt => {
                let detail = "stored data could not be read; see the server log";
                (Code::Internal, detail)
            }
        };
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            code = code.as_str(),
            "request failed"
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
