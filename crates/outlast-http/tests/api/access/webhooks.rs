//! Webhooks: signed messages become signals.

use crate::support::{Answer, ApiClient, on_both_stores};
use axum::body::Body;
use axum::http::Method;
use outlast::client::Admin;
use outlast_core::{Inspect, Store};
use outlast_http::{Role, Settings, Token, WebhookRoute, WebhookSecret};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

on_both_stores![
    a_signed_message_becomes_a_signal_once,
    a_message_without_a_valid_signature_is_refused,
    a_webhook_accepts_two_secrets_at_once,
    a_message_without_a_valid_target_is_refused,
];

const BODY: &str =
    r#"{"type": "paid", "data": {"order": "order:1", "number": 12345678901234567890123}}"#;

struct Sender {
    api: ApiClient,
    old: WebhookSecret,
    new: WebhookSecret,
}

impl Sender {
    async fn new<S: Store + Inspect + Clone>(store: S) -> Sender {
        let (old, new) = (
            WebhookSecret::generate().unwrap().1,
            WebhookSecret::generate().unwrap().1,
        );
        let by_key = WebhookRoute::to_key("checkout", "/data/order", "paid", old.clone())
            .or_secret(new.clone());
        let by_id = WebhookRoute::to_id("/id", "paid", old.clone());
        // Other routes need a token. Webhooks need only their signature.
        let (_, token) = Token::generate("others", Role::Admin).unwrap();
        let settings = Settings::new()
            .token(token)
            .webhook("payments", by_key)
            .webhook("direct", by_id);
        let api = ApiClient::with(store, settings);
        Sender { api, old, new }
    }

    fn admin(&self) -> Admin<'_> {
        self.api.client.admin()
    }

    async fn order(&self) -> String {
        use outlast_core::{Json, NewInstance};
        let row = NewInstance::new("checkout", "start", Json::null()).correlation_key("order:1");
        let answers = self.admin().insert_rows(vec![row]).await.unwrap();
        answers[0].new_id().unwrap().to_string()
    }

    async fn send(&self, name: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let path = format!("/v1/webhooks/{name}");
        let mut request = self
            .api
            .request(Method::POST, &path, Body::from(body.to_owned()));
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        self.api.send(request).await
    }

    async fn signed(&self, secret: &WebhookSecret, id: &str, at: u64, body: &str) -> Answer {
        let signature = secret.sign(id, at, body.as_bytes());
        let at = at.to_string();
        let headers = [
            ("webhook-id", id),
            ("webhook-timestamp", &at),
            ("webhook-signature", &signature),
        ];
        self.send("payments", &headers, body).await
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

async fn a_signed_message_becomes_a_signal_once<S: Store + Inspect + Clone>(store: S) {
    let sender = Sender::new(store).await;
    let id = sender.order().await;
    let first = sender.signed(&sender.old, "msg_1", now(), BODY).await.ok();
    assert_eq!(
        (&first["delivery"], &first["instance"]),
        (&json!("delivered"), &json!(id))
    );
    let again = sender.signed(&sender.old, "msg_1", now(), BODY).await.ok();
    assert_eq!(again["delivery"], "duplicate");
    let id = outlast_core::InstanceId(id.parse().unwrap());
    let inbox = sender.admin().signals(id, None).await.unwrap();
    assert_eq!(inbox.len(), 1);
    assert_eq!(
        (inbox[0].name.as_str(), inbox[0].dedup_key.as_deref()),
        ("paid", Some("msg_1"))
    );
    assert_eq!(inbox[0].payload.as_ref().unwrap().as_str(), BODY);

    let direct = format!(r#"{{"id": {id}}}"#);
    let (at, signature) = (
        now().to_string(),
        sender.old.sign("msg_2", now(), direct.as_bytes()),
    );
    let headers = [
        ("webhook-id", "msg_2"),
        ("webhook-timestamp", at.as_str()),
        ("webhook-signature", signature.as_str()),
    ];
    assert_eq!(
        sender.send("direct", &headers, &direct).await.ok()["delivery"],
        "delivered"
    );

    // The dedup key still counts after the end of the instance. A repeated message does not reach
    // the next holder of the correlation key.
    let note = outlast_core::Note::by("ada");
    sender.admin().terminate(id, note).await.unwrap();
    let late = sender.signed(&sender.old, "msg_1", now(), BODY).await.ok();
    assert_eq!(late["delivery"], "duplicate");
    let next = sender.order().await;
    let later = sender.signed(&sender.old, "msg_1", now(), BODY).await.ok();
    assert_eq!(
        (&later["delivery"], &later["instance"]),
        (&json!("duplicate"), &json!(id.to_string()))
    );
    let next = outlast_core::InstanceId(next.parse().unwrap());
    assert_eq!(sender.admin().signals(next, None).await.unwrap(), []);
}

async fn a_message_without_a_valid_signature_is_refused<S: Store + Inspect + Clone>(store: S) {
    let sender = Sender::new(store).await;
    let id = sender.order().await;
    let at = now();
    let good = sender.old.sign("msg_1", at, BODY.as_bytes());
    let text = at.to_string();
    let stranger = WebhookSecret::generate()
        .unwrap()
        .1
        .sign("msg_1", at, BODY.as_bytes());
    let unversioned = good.replace("v1,", "v2,");
    for (message, time, signature, body) in [
        ("msg_2", text.as_str(), good.as_str(), BODY),
        ("msg_1", "1", &good, BODY),
        ("msg_1", &text, &good, r#"{"data":{"order":"order:1"}}"#),
        ("msg_1", &text, &stranger, BODY),
        ("msg_1", &text, &unversioned, BODY),
        ("msg_1", &text, "v1,", BODY),
        ("msg_1", &text, "v1,%%%", BODY),
        ("msg_1", &text, "", BODY),
    ] {
        let headers = [
            ("webhook-id", message),
            ("webhook-timestamp", time),
            ("webhook-signature", signature),
        ];
        assert_eq!(
            sender.send("payments", &headers, body).await.code(),
            "bad_signature",
            "{signature}"
        );
    }
    assert_eq!(
        sender.send("payments", &[], BODY).await.code(),
        "bad_signature"
    );
    for off in [at - 301, at + 330] {
        assert_eq!(
            sender.signed(&sender.old, "msg_3", off, BODY).await.code(),
            "stale_timestamp"
        );
    }
    assert_eq!(
        sender.send("elsewhere", &[], BODY).await.code(),
        "not_found"
    );
    let id = outlast_core::InstanceId(id.parse().unwrap());
    assert_eq!(sender.admin().signals(id, None).await.unwrap(), vec![]);
}

async fn a_webhook_accepts_two_secrets_at_once<S: Store + Inspect + Clone>(store: S) {
    let sender = Sender::new(store).await;
    sender.order().await;
    sender.signed(&sender.old, "a", now(), BODY).await.ok();
    sender.signed(&sender.new, "b", now(), BODY).await.ok();
    // A sender that changes its secret signs with both.
    let at = now();
    let stranger = WebhookSecret::generate().unwrap().1;
    let both = format!(
        "{} {}",
        stranger.sign("c", at, BODY.as_bytes()),
        sender.new.sign("c", at, BODY.as_bytes())
    );
    let text = at.to_string();
    let headers = [
        ("webhook-id", "c"),
        ("webhook-timestamp", text.as_str()),
        ("webhook-signature", both.as_str()),
    ];
    sender.send("payments", &headers, BODY).await.ok();
}

async fn a_message_without_a_valid_target_is_refused<S: Store + Inspect + Clone>(store: S) {
    let sender = Sender::new(store).await;
    for (body, code) in [
        (BODY, "no_target"),
        (r#"{"data":{}}"#, "invalid_request"),
        (r#"{"data":{"order":[1]}}"#, "invalid_request"),
        (r#"{"data":{"order":1.5}}"#, "invalid_request"),
        (r#"{"data":{"order":""}}"#, "invalid_request"),
        ("not json", "invalid_json"),
        (r#"{"data":{"order":"x"},"s":"\u0000"}"#, "invalid_request"),
    ] {
        assert_eq!(
            sender.signed(&sender.old, "m", now(), body).await.code(),
            code,
            "{body}"
        );
    }
    let deep = "[".repeat(100);
    assert_eq!(
        sender.signed(&sender.old, "m", now(), &deep).await.code(),
        "too_deep"
    );
    let long = "x".repeat(600);
    assert_eq!(
        sender
            .signed(&sender.old, &long, now(), r#"{"data":{"order":"x"}}"#)
            .await
            .code(),
        "invalid_request"
    );
}
