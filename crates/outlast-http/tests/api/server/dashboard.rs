//! The dashboard's files.

use crate::support::ApiClient;
use axum::body::Body;
use axum::http::Method;
use outlast::Sqlite;

fn api_client() -> ApiClient {
    ApiClient::new(Sqlite::in_memory().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_served_with_their_media_type_and_a_strict_policy() {
    let api = api_client();
    for (path, media_type) in [
        ("/ui/", "text/html; charset=utf-8"),
        ("/ui/index.html", "text/html; charset=utf-8"),
        ("/ui/app.js", "text/javascript; charset=utf-8"),
        ("/ui/page.css", "text/css; charset=utf-8"),
        ("/ui/icon.svg", "image/svg+xml"),
    ] {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.headers["content-type"], media_type, "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_file_is_not_sent_again() {
    let api = api_client();
    for path in ["/ui/", "/ui/app.js"] {
        let first = api.get(path).await;
        let mut request = api.request(Method::GET, path, Body::empty());
        request
            .headers_mut()
            .insert("if-none-match", first.headers["etag"].clone());
        let again = api.send(request).await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
        assert_eq!(again.headers["etag"], first.headers["etag"]);
        let mut request = api.request(Method::GET, path, Body::empty());
        request
            .headers_mut()
            .insert("if-none-match", "\"other\"".parse().unwrap());
        assert_eq!(api.send(request).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn screen_addresses_serve_the_page_and_a_missing_script_is_not_found() {
    let api = api_client();
    let page = api.get("/ui/").await.text;
    for path in [
        "/ui/instances",
        "/ui/instances/42",
        "/ui/machines/check.out",
    ] {
        assert_eq!(api.get(path).await.text, page, "{path}");
    }
    for path in [
        "/ui/missing.js",
        "/ui/missing.css",
        "/ui/../Cargo.toml",
        "/ui/%2e%2e/Cargo.toml",
        "/ui/README.md",
    ] {
        let answer = api.get(path).await;
        assert!(
            answer.status == 404 || answer.text == page,
            "{path}: {answer:?}"
        );
        assert!(!answer.text.contains("[package]"));
    }
    assert_eq!(api.get("/ui/missing.js").await.code(), "not_found");
    assert_eq!(api.get("/").await.headers["location"], "/ui/");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_has_no_inline_code_and_no_remote_addresses() {
    let page = api_client().get("/ui/").await.text;
    assert!(
        !page.contains("style=") && !page.contains("onclick"),
        "{page}"
    );
    assert!(
        !page.contains("http://") && !page.contains("https://"),
        "{page}"
    );
    for script in page.match_indices("<script") {
        let tag = &page[script.0..][..page[script.0..].find('>').unwrap()];
        assert!(tag.contains("src="), "{tag}");
    }
}
