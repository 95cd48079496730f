//! A failed instance on its screen: its error as a text and as a value.

use crate::Visit;
use crate::stage::{Setting, Stage};
use outlast::Status;

#[tokio::test(flavor = "multi_thread")]
async fn the_error_value_of_a_failed_instance_is_shown_as_such_and_not_as_a_result() {
    let Some(visit) = Visit::start().await else {
        return;
    };
    let stage = Stage::sqlite(Setting::default()).await;
    let done = stage.piece("done").await;
    let failed = stage.piece("fail").await;
    stage.reaches(done, Status::Done).await;
    stage.reaches(failed, Status::Failed).await;
    let page = &visit.page;
    page.go(&format!("{}instances/{failed}", stage.ui)).await;
    page.until_text("[data-error]", "it cannot be done").await;
    page.until_text("[data-json='error value']", "screws").await;
    let titles = "[...document.querySelectorAll('.card h2')].map((title) => title.textContent)";
    let titles = page.value(titles).await.to_string();
    assert!(titles.contains("Error value"), "{titles}");
    assert!(!titles.contains("Result"), "{titles}");
    // The output of a done instance is its result.
    page.go(&format!("{}instances/{done}", stage.ui)).await;
    page.until_text("[data-json=result]", "done").await;
    page.until(
        "!document.querySelector(\"[data-json='error value']\")",
        "no error value",
    )
    .await;
    visit.end().await;
    stage.end().await;
}
