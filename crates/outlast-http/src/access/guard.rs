//! The middleware that admits requests: it checks the peer, the host, the origin and the token.

use crate::access::tokens::Caller;
use crate::api::Api;
use crate::problem::{Code, Problem};
use crate::settings::Settings;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The reason why a router is not served at an address.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} is reachable from other machines and no token is set; set a token, or listen on 127.0.0.1"
)]
pub struct NotGuarded {
    address: SocketAddr,
}

/// Checks that a router with these settings may listen at `address`: any address with tokens, else
/// this machine only. The router refuses requests from elsewhere even if an application skips this
/// check.
pub fn check_address(address: SocketAddr, settings: &Settings) -> Result<(), NotGuarded> {
    let is_guarded = !settings.tokens.is_empty() || settings.authentication_is_the_hosts;
    if is_guarded || address.ip().is_loopback() {
        return Ok(());
    }
    Err(NotGuarded { address })
}

/// Admits a request with sufficient credentials and passes its caller to the routes.
pub(crate) async fn guard(
    State(api): State<Arc<Api>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let settings = &api.settings;
    check_host(settings, request.headers(), request.uri().host())?;
    check_origin(settings, &request)?;
    let caller = identify(&api, &request)?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Admits a request that needs no token: dashboard files, webhooks and the OpenAPI document.
pub(crate) async fn guard_host(
    State(api): State<Arc<Api>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    check_host(&api.settings, request.headers(), request.uri().host())?;
    Ok(next.run(request).await)
}

/// Prevents DNS rebinding: a site makes a browser resolve its name to this machine's address. The
/// `Host` header still contains that name.
fn check_host(
    settings: &Settings,
    headers: &HeaderMap,
    in_uri: Option<&str>,
) -> Result<(), Problem> {
    let is_guarded = !settings.tokens.is_empty() || settings.authentication_is_the_hosts;
    if settings.hosts.is_empty() && is_guarded {
        return Ok(());
    }
    let named = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let Some(host) = named.or(in_uri) else {
        return Err(Problem::new(
            Code::ForbiddenHost,
            "the Host header is missing",
        ));
    };
    let host = host.to_ascii_lowercase();
    let name = without_port(&host);
    let is_allowed = |allowed: &String| *allowed == host || allowed == name;
    if is_this_machine(name) || settings.hosts.iter().any(is_allowed) {
        return Ok(());
    }
    let detail =
        format!("host {host:?} is not allowed; add it with Settings::allow_host or --allow-host");
    Err(Problem::new(Code::ForbiddenHost, detail))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() =>
        {
            // Within brackets, a colon is part of an IPv6 address.
            if name.contains(':') && !name.ends_with(']') {
                host
            } else {
                name
            }
        }
        Some(_) | None => host,
    }
}

fn is_this_machine(name: &str) -> bool {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_loopback || name == "localhost" || name.ends_with(".localhost")
}

/// Refuses pages of other origins, except for links. They could act with the browser's
/// credentials.
fn check_origin(settings: &Settings, request: &Request) -> Result<(), Problem> {
    let text = |name: &str| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap_or("?"))
    };
    let origin = text("origin").map(str::to_ascii_lowercase);
    if let Some(origin) = &origin
        && settings.origins.contains(origin)
    {
        return Ok(());
    }
    let changes = !matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    let is_foreign = match text("sec-fetch-site") {
        Some("same-origin" | "none") => false,
        Some(_) => changes || text("sec-fetch-mode") != Some("navigate"),
        // Programs send neither header. Old browsers send `Origin` with requests that change
        // something.
        None => changes && origin.is_some_and(|origin| !is_own(&origin, request.headers())),
    };
    if is_foreign {
        let detail = "requests from other origins are not allowed; add the origin with Settings::allow_origin or --allow-origin";
        return Err(Problem::new(Code::ForbiddenOrigin, detail));
    }
    Ok(())
}

fn is_own(origin: &str, headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let (Some(host), Some((_, authority))) = (host, origin.split_once("://")) else {
        return false;
    };
    authority.eq_ignore_ascii_case(host)
}

fn identify(api: &Api, request: &Request) -> Result<Arc<Caller>, Problem> {
    let settings = &api.settings;
    if settings.authentication_is_the_hosts {
        return Ok(Arc::new(Caller::unnamed()));
    }
    if settings.tokens.is_empty() {
        return identify_local(api, request);
    }
    let Some(given) = request.headers().get(header::AUTHORIZATION) else {
        let detail = "send a token: Authorization: Bearer outlast_…";
        return Err(Problem::new(Code::Unauthorized, detail));
    };
    let secret = given.to_str().ok().and_then(|given| {
        let (scheme, secret) = given.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(secret.trim())
    });
    let caller = secret.and_then(|secret| settings.tokens.find(secret));
    caller.ok_or_else(|| Problem::new(Code::Unauthorized, "unknown token"))
}

/// Without tokens, callers on this machine may do everything and others nothing. An unknown peer
/// counts as another machine.
fn identify_local(api: &Api, request: &Request) -> Result<Arc<Caller>, Problem> {
    let is_forwarded = ["forwarded", "x-forwarded-for", "x-real-ip", "via"]
        .iter()
        .any(|header| request.headers().contains_key(*header));
    let detail = match peer(request) {
        Some(peer) if peer.ip().is_loopback() && !is_forwarded => {
            return Ok(Arc::new(Caller::unnamed()));
        }
        Some(_) => NOT_LOCAL,
        None => {
            api.peer_is_unknown
                .call_once(|| tracing::warn!("{UNKNOWN_PEER}"));
            UNKNOWN_PEER
        }
    };
    Err(Problem::new(Code::Unauthorized, detail))
}

const NOT_LOCAL: &str = "no token is configured, so only connections from this machine are accepted; \
    configure a token to allow others";

/// An application made a mistake: it serves the router without the addresses of its peers.
const UNKNOWN_PEER: &str = "no token is configured, so only connections from this machine are accepted, \
    and the server does not provide the peer's address; serve the application with \
    into_make_service_with_connect_info::<SocketAddr>(), or configure a token";

fn peer(request: &Request) -> Option<SocketAddr> {
    use axum::extract::connect_info::MockConnectInfo;
    let extensions = request.extensions();
    let real = extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map(|info| info.0);
    real.or_else(|| {
        extensions
            .get::<MockConnectInfo<SocketAddr>>()
            .map(|info| info.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_host_names_are_recognized_with_any_port() {
        for host in [
            "localhost",
            "localhost:7001",
            "127.0.0.1:80",
            "127.8.8.8",
            "[::1]",
            "[::1]:7001",
            "demo.localhost:1",
        ] {
            assert!(is_this_machine(without_port(host)), "{host}");
        }
        for host in [
            "example.com",
            "localhost.example.com",
            "127.0.0.1.nip.io",
            "10.0.0.1:80",
            "[::2]:80",
            "",
            ":80",
            "0.0.0.0",
        ] {
            assert!(!is_this_machine(without_port(host)), "{host}");
        }
    }

    #[test]
    fn a_non_loopback_address_needs_authentication() {
        let everywhere: SocketAddr = ([0, 0, 0, 0], 7001).into();
        let here: SocketAddr = ([127, 0, 0, 1], 7001).into();
        assert!(check_address(here, &Settings::new()).is_ok());
        assert!(check_address(everywhere, &Settings::new()).is_err());
        assert!(check_address(everywhere, &Settings::new().authentication_is_the_hosts()).is_ok());
    }
}
