//! The router within somebody's own application.

use crate::support::Asking;
use axum::Router;
use axum::routing::get;
use outlast::Sqlite;
use outlast_http::{Settings, router};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn under_a_prefix_everything_is_where_it_says_it_is() {
    let api = Asking::new(Sqlite::in_memory().unwrap());
    let inner = router(api.client.clone(), Settings::new());
    let app = Router::new()
        .route("/", get(async || "the shop"))
        .nest("/admin/outlast", inner);
    let api = api.through(app);
    assert_eq!(api.get("/").await.text, "the shop");
    let id = api
        .post(
            "/admin/outlast/v1/instances",
            json!({"machine": "m", "step": "s"}),
        )
        .await
        .ok();
    let found = api
        .get(&format!(
            "/admin/outlast/v1/instances/{}",
            id["id"].as_str().unwrap()
        ))
        .await
        .ok();
    assert_eq!(found["machine"], "m");
    assert_eq!(
        api.get("/admin/outlast/v1/nothing").await.code(),
        "not_found"
    );
    assert_eq!(api.get("/v1/instances").await.status, 404);

    let root = api.get("/admin/outlast").await;
    assert_eq!(
        (root.status.as_u16(), &root.headers["location"]),
        (307, &"/admin/outlast/ui/".parse().unwrap())
    );
    for path in [
        "/admin/outlast/ui/",
        "/admin/outlast/ui/instances/42",
        "/admin/outlast/ui/machines/a/b?x=1",
    ] {
        let page = api.get(path).await;
        assert!(
            page.text.contains("<base href=\"/admin/outlast/ui/\">"),
            "{path}: {}",
            page.text
        );
    }
    let document = api.get("/admin/outlast/v1/openapi.json").await.ok();
    assert_eq!(document["servers"][0]["url"], "/admin/outlast");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_that_takes_the_prefix_away_it_is_told_where_it_is() {
    let settings = Settings::new().base_path("/tools/outlast/");
    let api = Asking::with(Sqlite::in_memory().unwrap(), settings);
    assert_eq!(api.get("/").await.headers["location"], "/tools/outlast/ui/");
    assert!(
        api.get("/ui/")
            .await
            .text
            .contains("<base href=\"/tools/outlast/ui/\">")
    );
}
