//! A client that sends requests to a router without a connection.

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use outlast::Client;
use outlast_core::{Inspect, Json, NewInstance, Store};
use outlast_http::{Settings, router};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tower::ServiceExt;

/// Sends requests to a router as a client on this machine.
#[derive(Clone)]
pub(crate) struct ApiClient {
    pub(crate) client: Client,
    router: Router,
    token: Option<String>,
}

/// The answer of a router.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the body; panics when the status is not a success.
    pub(crate) fn ok(self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.json()
    }

    /// Returns the error code; panics when the answer is not a problem document.
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        assert_eq!(
            self.headers["content-type"], "application/problem+json",
            "{self:?}"
        );
        assert_eq!(body["status"], self.status.as_u16(), "{self:?}");
        let code = body["code"].as_str().unwrap();
        assert_eq!(body["type"], format!("urn:outlast:error:{code}"));
        assert!(!body["detail"].as_str().unwrap().is_empty());
        code.to_owned()
    }
}

impl ApiClient {
    /// Returns a client of a router with default settings.
    pub(crate) fn new(store: impl Store + Inspect) -> ApiClient {
        ApiClient::with(store, Settings::new())
    }

    pub(crate) fn with(store: impl Store + Inspect, settings: Settings) -> ApiClient {
        ApiClient::of(Client::new(store), settings)
    }

    /// Returns a client of a router on this client, for example that of an engine.
    pub(crate) fn of(client: Client, settings: Settings) -> ApiClient {
        let router = router(client.clone(), settings);
        ApiClient {
            client,
            router,
            token: None,
        }
    }

    /// Returns the same client with another router.
    pub(crate) fn through(&self, router: Router) -> ApiClient {
        ApiClient {
            router,
            ..self.clone()
        }
    }

    /// Returns the same client with this token.
    pub(crate) fn token(&self, secret: &str) -> ApiClient {
        ApiClient {
            token: Some(secret.to_owned()),
            ..self.clone()
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path, Body::empty()))
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path, Body::empty()))
            .await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_text(path, body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: impl Into<Body>) -> Answer {
        let mut request = self.request(Method::POST, path, body.into());
        let headers = request.headers_mut();
        headers.insert("content-type", "application/json".parse().unwrap());
        self.send(request).await
    }

    /// Returns a request as a client on this machine sends it.
    pub(crate) fn request(&self, method: Method, path: &str, body: Body) -> Request<Body> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:7001");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let here: SocketAddr = ([127, 0, 0, 1], 50_000).into();
        request.extension(ConnectInfo(here)).body(body).unwrap()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// Inserts an instance that no engine runs, and returns its id.
    pub(crate) async fn insert(&self, machine: &str, queue: &str) -> String {
        let state = Json::of(&json!({ "number": 1 })).unwrap();
        let row = NewInstance::new(machine, "start", state).queue(queue);
        let answers = self.client.admin().insert_rows(vec![row]).await.unwrap();
        answers[0].new_id().unwrap().to_string()
    }
}
