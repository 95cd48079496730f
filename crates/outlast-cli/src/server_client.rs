//! A client of the HTTP API, for the commands that need the code of a workflow.
//!
//! It sends each request as HTTP/1.0 and reads the answer to its end. So the program needs no HTTP
//! client library for a few small requests. It has no TLS: a remote server is asked through a
//! tunnel, or with another client.

use crate::failure::Failure;
use crate::output::note;
use clap::Args;
use outlast::store::{Json, Target, key};
use serde::Deserialize;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one request may take. Servers give up earlier.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest answer.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The server to ask.
#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// The server that has the code: http://HOST:PORT, with the path at which it is mounted
    #[arg(
        long,
        value_name = "URL",
        env = "OUTLAST_SERVER",
        default_value = "http://127.0.0.1:7700"
    )]
    server: String,
    /// The token for the server, or @FILE for a file that contains it
    #[arg(
        long,
        value_name = "TOKEN|@FILE",
        env = "OUTLAST_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

/// A server of the HTTP API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Host and port, as in the URL.
    authority: String,
    /// The path at which the API is mounted, without a slash at the end.
    place: String,
    token: Option<String>,
}

impl ServerArgs {
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        let token = self.token.as_deref().filter(|it| !it.is_empty());
        let token = token.map(read_token).transpose()?;
        Server::at(&self.server, token)
    }
}

/// Returns the token, from its file if it names one.
fn read_token(given: &str) -> Result<String, Failure> {
    let token = match given.strip_prefix('@') {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| {
                Failure::Usage(format!("cannot read the token from file {file}: {error}"))
            })?;
            text.lines().next().unwrap_or_default().trim().to_owned()
        }
        None => {
            if std::env::args().any(|argument| argument.contains(given)) {
                note(
                    "warning: every user of this machine can read a token on the command line; use OUTLAST_TOKEN or --token @FILE",
                );
            }
            given.to_owned()
        }
    };
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token),
        false => Err(Failure::Usage("the token is not one word".into())),
    }
}

impl Server {
    fn at(url: &str, token: Option<String>) -> Result<Server, Failure> {
        let wrong = |words: &str| Failure::Usage(format!("server {url:?} {words}"));
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                let words = "needs TLS, which this command does not have; use a tunnel or another HTTP client";
                return Err(wrong(words));
            }
            Some(_) | None => return Err(wrong("is no URL; write http://HOST:PORT")),
        };
        let (authority, place) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !is_plain(rest) {
            return Err(wrong("is no URL; write http://HOST:PORT"));
        }
        let place = place.trim_end_matches('/');
        Ok(Server {
            authority: authority.to_owned(),
            place: match place {
                "" => String::new(),
                place => format!("/{place}"),
            },
            token,
        })
    }

    /// Returns the id of an instance, which the server looks up if it is given by its key.
    pub(crate) async fn id_of(&self, target: &Target) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Found {
            id: String,
        }
        let (machine, key) = match target {
            Target::Id(id) => return Ok(id.to_string()),
            Target::Key { machine, key } => (encoded(machine), key),
        };
        let path = match key::hex(key) {
            Some(digits) => format!("/v1/machines/{machine}/keys/{digits}?hex=true"),
            None => format!("/v1/machines/{machine}/keys/{}", encoded(key)),
        };
        let found = self.request("GET", &path, None).await?;
        let found: Found = serde_json::from_str(&found).map_err(|_| self.strange())?;
        Ok(found.id)
    }

    /// Sends a request, and returns the body of the answer.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Json>,
    ) -> Result<String, Failure> {
        let request = self.head(method, path, body);
        let answer = tokio::time::timeout(PATIENCE, self.exchange(&request)).await;
        let answer = answer.unwrap_or_else(|_| Err("it does not answer".into()));
        let answer = answer.map_err(|error| {
            let authority = &self.authority;
            Failure::Database(format!("cannot ask the server at {authority}: {error}"))
        })?;
        let answer = Answer::parse(&answer).ok_or_else(|| self.strange())?;
        match answer.status {
            200..300 => Ok(answer.body.to_owned()),
            status => Err(refusal(status, answer.body)),
        }
    }

    fn head(&self, method: &str, path: &str, body: Option<&Json>) -> String {
        let Server {
            authority, place, ..
        } = self;
        let mut head = format!("{method} {place}{path} HTTP/1.0\r\nhost: {authority}\r\n");
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        let body = body.map_or("", Json::as_str);
        if !body.is_empty() {
            head += "content-type: application/json\r\n";
        }
        head + &format!("content-length: {}\r\n\r\n{body}", body.len())
    }

    async fn exchange(&self, request: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        // An address in brackets ends with one, unless a port follows.
        let has_port = self
            .authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.bytes().all(|it| it.is_ascii_digit()));
        let address = match has_port {
            true => self.authority.clone(),
            false => format!("{}:80", self.authority),
        };
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        let mut limited = stream.take(ANSWER_BYTES_MAX + 1);
        limited.read_to_end(&mut answer).await?;
        match answer.len() as u64 > ANSWER_BYTES_MAX {
            true => Err("its answer is larger than 64 MiB".into()),
            false => Ok(answer),
        }
    }

    fn strange(&self) -> Failure {
        let authority = &self.authority;
        Failure::Failed(format!(
            "the answer of the server at {authority} cannot be read; is it a server of Outlast?"
        ))
    }
}

/// An answer of a server.
#[derive(Debug, PartialEq, Eq)]
struct Answer<'a> {
    status: u16,
    body: &'a str,
}

impl Answer<'_> {
    /// Parses a whole answer; `None` if it is no HTTP, or not whole.
    fn parse(answer: &[u8]) -> Option<Answer<'_>> {
        let answer = std::str::from_utf8(answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let (first, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let mut words = first.split(' ');
        let is_http = words.next()?.starts_with("HTTP/1.");
        let status = words.next()?.parse().ok()?;
        let field = |name: &str| {
            let mut fields = fields.split("\r\n").filter_map(|line| line.split_once(':'));
            let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim())
        };
        let length = field("content-length").and_then(|it| it.parse().ok());
        let is_whole = length.is_none_or(|length: usize| length == body.len());
        // HTTP/1.0 has no chunks.
        let is_plain = field("transfer-encoding").is_none();
        (is_http && is_whole && is_plain).then_some(Answer { status, body })
    }
}

/// Returns the failure that a refusal of the API stands for.
fn refusal(status: u16, body: &str) -> Failure {
    #[derive(Deserialize)]
    struct Problem {
        code: String,
        detail: String,
    }
    let problem: Option<Problem> = serde_json::from_str(body).ok();
    let words = match problem {
        Some(Problem { code, detail }) if code == "unauthorized" => {
            format!("{detail}; give one with --token @FILE or OUTLAST_TOKEN")
        }
        Some(problem) => problem.detail,
        None => format!("the server answered with status {status}"),
    };
    match status {
        400 => Failure::Usage(words),
        404 => Failure::NotFound(words),
        401 | 403 | 409 | 501 => Failure::Refused(words),
        503 => Failure::Database(words),
        _ => Failure::Failed(words),
    }
}

/// Encodes a name as one segment of a path.
pub(crate) fn encoded(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_http_url_with_or_without_a_path() {
        for (url, authority, place) in [
            ("http://127.0.0.1:7700", "127.0.0.1:7700", ""),
            ("http://localhost/", "localhost", ""),
            ("http://[::1]:80/a/b/", "[::1]:80", "/a/b"),
        ] {
            let server = Server::at(url, None).unwrap();
            assert_eq!((&*server.authority, &*server.place), (authority, place));
        }
        for (url, words) in [
            ("https://example.com", "needs TLS"),
            ("localhost:7700", "write http://"),
            ("http://", "write http://"),
            ("http://me:secret@host", "write http://"),
            ("http://a b", "write http://"),
            ("http://host/\r\nx: y", "write http://"),
        ] {
            let failure = Server::at(url, None).unwrap_err();
            assert_eq!(failure.code(), 2, "{url}");
            assert!(failure.message().unwrap().contains(words), "{failure:?}");
        }
    }

    #[test]
    fn a_request_has_its_token_and_its_body() {
        let server = Server::at("http://host/at", Some("secret".into())).unwrap();
        let body = Json::parse("[1]").unwrap();
        let request = server.head("POST", "/v1/x", Some(&body));
        let lines: Vec<_> = request.split("\r\n").collect();
        assert_eq!(
            lines,
            [
                "POST /at/v1/x HTTP/1.0",
                "host: host",
                "authorization: Bearer secret",
                "content-type: application/json",
                "content-length: 3",
                "",
                "[1]"
            ]
        );
    }

    #[test]
    fn an_answer_that_is_cut_off_or_in_chunks_is_not_read() {
        let whole = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n42";
        let answer = Answer {
            status: 200,
            body: "42",
        };
        assert_eq!(Answer::parse(whole), Some(answer));
        assert_eq!(Answer::parse(&whole[..whole.len() - 1]), None);
        let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n42\r\n";
        assert_eq!(Answer::parse(chunks), None);
        assert_eq!(Answer::parse(b"SSH-2.0-x\r\n\r\n"), None);
        assert_eq!(Answer::parse(b"HTTP/1.0 200 OK\r\n"), None);
    }

    #[test]
    fn a_refusal_has_the_exit_code_of_its_status() {
        let body = r#"{"code": "blocked", "detail": "it is blocked"}"#;
        for (status, code) in [(400, 2), (404, 3), (409, 4), (501, 4), (422, 1), (503, 5)] {
            let failure = refusal(status, body);
            assert_eq!(
                (failure.code(), failure.message()),
                (code, Some("it is blocked"))
            );
        }
        assert!(refusal(502, "<html>").message().unwrap().contains("502"));
        let refused = refusal(401, r#"{"code": "unauthorized", "detail": "a token"}"#);
        assert!(refused.message().unwrap().contains("OUTLAST_TOKEN"));
    }

    #[test]
    fn a_segment_of_a_path_is_encoded() {
        assert_eq!(encoded("a-b_c.d~1"), "a-b_c.d~1");
        assert_eq!(encoded("a/b ?é"), "a%2Fb%20%3F%C3%A9");
    }
}
