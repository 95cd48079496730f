//! Serves the dashboard: static files that are compiled into the program.

use crate::api::Api;
use crate::problem::{Code, Problem};
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Every file, by its path below `ui/`.
const FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));

const INDEX: &str = "index.html";

/// Allows resources of this server only, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'";

/// Redirects the root to the dashboard.
pub(crate) async fn root(
    State(api): State<Arc<Api>>,
    OriginalUri(full): OriginalUri,
    uri: Uri,
) -> Response {
    let to = format!("{}/ui/", prefix(&api, &full, &uri));
    let Ok(to) = HeaderValue::try_from(to) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response()
}

/// Serves the page.
pub(crate) async fn index(
    State(api): State<Arc<Api>>,
    OriginalUri(full): OriginalUri,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    page(&prefix(&api, &full, &uri), &headers)
}

/// Serves a file, or the page for every other path: each screen has its own path below `ui/`.
pub(crate) async fn file(
    State(api): State<Arc<Api>>,
    Path(path): Path<String>,
    OriginalUri(full): OriginalUri,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if path == INDEX {
        return page(&prefix(&api, &full, &uri), &headers);
    }
    if let Some((name, bytes)) = find(&path) {
        return Ok(answer(media_type(name), bytes.to_vec(), &headers));
    }
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let wants_page =
        accepts.is_none_or(|accept| accept.contains("text/html") || accept.contains("*/*"));
    // A missing script must not be answered with the page.
    let is_asset = media_type(&path) != OTHER;
    if is_asset && !accepts.is_some_and(|accept| accept.contains("text/html")) || !wants_page {
        return Err(Problem::new(
            Code::NotFound,
            format!("the dashboard has no file {path:?}"),
        ));
    }
    page(&prefix(&api, &full, &uri), &headers)
}

fn find(path: &str) -> Option<(&'static str, &'static [u8])> {
    FILES.iter().find(|(name, _)| *name == path).copied()
}

/// Returns the page with its base address, to which every address in it is relative.
fn page(prefix: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let (_, bytes) = find(INDEX)
        .ok_or_else(|| Problem::new(Code::NotFound, "this build does not include the dashboard"))?;
    let page = based(&String::from_utf8_lossy(bytes), &format!("{prefix}/ui/"));
    Ok(answer(
        "text/html; charset=utf-8",
        page.into_bytes(),
        headers,
    ))
}

/// Replaces the base of the page.
fn based(page: &str, base: &str) -> String {
    let base = base
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;");
    let element = format!("<base href=\"{base}\">");
    if let Some(start) = page.find("<base ")
        && let Some(length) = page[start..].find('>')
    {
        return format!("{}{element}{}", &page[..start], &page[start + length + 1..]);
    }
    page.replacen("<head>", &format!("<head>{element}"), 1)
}

/// Returns the path of the router as a browser sees it: the prefix that the application removed.
pub(crate) fn prefix(api: &Api, full: &Uri, inner: &Uri) -> String {
    if let Some(base) = &api.settings.base_path {
        return base.clone();
    }
    let inner = inner.path().trim_end_matches('/');
    let full = full.path().trim_end_matches('/');
    full.strip_suffix(inner).unwrap_or_default().to_owned()
}

const OTHER: &str = "application/octet-stream";

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("json" | "webmanifest") => "application/json",
        Some("woff2") => "font/woff2",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        Some(_) | None => OTHER,
    }
}

fn answer(media_type: &'static str, bytes: Vec<u8>, asked: &HeaderMap) -> Response {
    let tag = format!(
        "\"{}\"",
        URL_SAFE_NO_PAD.encode(&Sha256::digest(&bytes)[..16])
    );
    let known = asked
        .get(header::IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|known| {
        known
            .split(',')
            .any(|one| one.trim().trim_start_matches("W/") == tag)
    });
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, media_type)], bytes).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    // File names do not change between versions, so the browser must revalidate.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_path_is_written_into_the_page() {
        let with = "<html><head><base href=\"/ui/\"><script src=\"app.js\"></script></head></html>";
        assert_eq!(based(with, "/a/ui/"), with.replace("/ui/", "/a/ui/"));
        assert_eq!(
            based("<head><title>", "/ui/"),
            "<head><base href=\"/ui/\"><title>"
        );
        assert!(!based(with, "/\"><script>/ui/").contains("<script>/"));
    }

    #[test]
    fn the_content_security_policy_forbids_inline_and_remote_sources() {
        assert!(!POLICY.contains("unsafe") && !POLICY.contains("http"));
    }
}
