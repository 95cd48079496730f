//! `outlast query`: asks a workflow through a server that has its code.

use crate::demonstrating::Serving;
use crate::support::{Ran, Running, Site, bare, on_both_databases};
use outlast_http::{Role, ServeLimits, Settings, Token, router};
use serde_json::json;
use tokio::net::TcpListener;

on_both_databases!(
    a_workflow_is_asked_through_a_server_that_has_its_code,
    a_server_may_want_a_token,
    each_refusal_has_its_exit_code,
);

/// Serves the engine of the test, and returns the URL of the server.
async fn served(engine: &Running, settings: Settings) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = router((**engine).clone(), settings);
    let never = std::future::pending();
    tokio::spawn(outlast_http::serve(
        listener,
        router,
        ServeLimits::default(),
        never,
    ));
    format!("http://{address}")
}

/// Starts an errand, and waits until it has thought.
async fn errand(site: &Site, engine: &Running) -> String {
    let id = site.run(["insert", "errand", "run", "--state", "0", "--key", "e:1"]);
    let id = id.succeeds().line();
    engine
        .until(&id, |it| it.awaits.as_deref() == Some(&["paid".to_owned()]))
        .await;
    id
}

async fn a_workflow_is_asked_through_a_server_that_has_its_code(site: &Site) {
    let engine = site.engine().await;
    let url = served(&engine, Settings::new()).await;
    let id = errand(site, &engine).await;
    let ask = |target: &str| {
        let asked = [
            "query", target, "thought", "-p", "plus:=1", "--server", &url,
        ];
        site.run(asked).succeeds().line()
    };
    assert_eq!(ask(&id), "8");
    assert_eq!(ask("errand/e:1"), "8");
    let listed = site.run(["query", &id, "--server", &url]);
    assert_eq!(listed.succeeds().line(), "thought");
    let listed = site.run(["query", &id, "--server", &url, "-o", "json"]);
    assert_eq!(listed.succeeds().json(), json!({"queries": ["thought"]}));
    // It needs no database.
    let mut command = bare();
    command.args(["query", &id, "thought", "--state", r#"{"plus": 2}"#]);
    command.env("OUTLAST_SERVER", &url);
    assert_eq!(Ran::of(command).succeeds().line(), "9");
    engine.stop().await;
}

async fn a_server_may_want_a_token(site: &Site) {
    let engine = site.engine().await;
    let (secret, token) = Token::generate("reader", Role::Read).unwrap();
    let url = served(&engine, Settings::new().token(token)).await;
    let id = errand(site, &engine).await;
    let ask = || site.command(["query", &id, "thought", "-p", "plus:=1", "--server", &url]);
    let refused = Ran::of(ask()).ends_with(4).err();
    assert!(refused.contains("OUTLAST_TOKEN"), "{refused}");
    let file = site.folder.path().join("token");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let mut command = ask();
    command.arg("--token").arg(format!("@{}", file.display()));
    let asked = Ran::of(command).succeeds();
    assert_eq!((asked.line(), asked.err()), ("8".into(), String::new()));
    let mut command = ask();
    command.env("OUTLAST_TOKEN", &secret);
    assert_eq!(Ran::of(command).succeeds().err(), "");
    let mut command = ask();
    command.args(["--token", &secret]);
    let warned = Ran::of(command).succeeds().err();
    assert!(warned.contains("warning: every user"), "{warned}");
    engine.stop().await;
}

async fn each_refusal_has_its_exit_code(site: &Site) {
    let engine = site.engine().await;
    let url = served(&engine, Settings::new()).await;
    let id = errand(site, &engine).await;
    let mut serving = site.command(["serve", "--port", "0"]);
    serving.env_remove("OUTLAST_SERVER");
    let without_code = Serving::start(serving);
    let foreign = format!("http://{}", without_code.address());
    let ask = |id: &str, name: &str, plus: &str, url: &str| {
        let plus = format!("plus:={plus}");
        let asked = ["query", id, name, "-p", &plus, "--server", url];
        Ran::of(site.command(asked))
    };
    for (ran, code, words) in [
        (ask(&id, "thought", "0", &url), 1, "nothing is added"),
        (ask(&id, "thought", "\"x\"", &url), 2, "invalid type"),
        (ask(&id, "thought", "1", "https://x"), 2, "needs TLS"),
        (ask(&id, "other", "1", &url), 3, "it handles thought"),
        (ask("999999", "thought", "1", &url), 3, "does not exist"),
        (ask("errand/e:2", "thought", "1", &url), 3, "e:2"),
        (
            ask(&id, "thought", "1", &foreign),
            4,
            "errand/1 is not here; ask",
        ),
        (
            ask(&id, "thought", "1", "http://127.0.0.1:1"),
            5,
            "cannot ask the server",
        ),
    ] {
        let told = ran.ends_with(code).err();
        assert!(told.contains(words), "{words}: {told}");
    }
    engine.stop().await;
}
