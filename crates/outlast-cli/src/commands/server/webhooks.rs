//! Parses the file of `outlast serve --webhooks`, which maps signed messages to signals.

use super::line_files::read_lines;
use crate::failure::Failure;
use outlast_http::{WebhookRoute, WebhookSecret};
use std::path::Path;

/// The format of a line.
const SHAPE: &str = "a line must be NAME signal=NAME, then machine=NAME key=POINTER or id=POINTER, then one or two \
    secret=whsec_…; a POINTER is a JSON pointer into the body, such as /data/order";

/// Reads the webhooks of a file, by name.
pub(crate) fn read_webhooks(file: &Path) -> Result<Vec<(String, WebhookRoute)>, Failure> {
    let webhooks = read_lines(file, read_webhook)?;
    for (position, (name, _)) in webhooks.iter().enumerate() {
        if webhooks[..position].iter().any(|(other, _)| other == name) {
            let words = format!("{} has webhook {name:?} twice", file.display());
            return Err(Failure::Usage(words));
        }
    }
    Ok(webhooks)
}

/// The parsed fields of a line, before the check that all are present.
#[derive(Default)]
struct WebhookFields<'a> {
    signal: Option<&'a str>,
    machine: Option<&'a str>,
    key: Option<&'a str>,
    id: Option<&'a str>,
    secrets: Vec<WebhookSecret>,
}

fn read_webhook(line: &str) -> Result<(String, WebhookRoute), String> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| !name.contains('='));
    let name = name.ok_or_else(|| SHAPE.to_owned())?;
    let mut fields = WebhookFields::default();
    for word in words {
        fields.add(word)?;
    }
    Ok((name.to_owned(), fields.route()?))
}

impl<'a> WebhookFields<'a> {
    fn add(&mut self, word: &'a str) -> Result<(), String> {
        let (what, value) = word.split_once('=').ok_or_else(|| SHAPE.to_owned())?;
        let place = match what {
            "secret" => {
                let secret = WebhookSecret::new(value).map_err(|bad| bad.to_string())?;
                self.secrets.push(secret);
                return Ok(());
            }
            "signal" => &mut self.signal,
            "machine" => &mut self.machine,
            "key" => &mut self.key,
            "id" => &mut self.id,
            _ => return Err(format!("unknown field {what:?}; {SHAPE}")),
        };
        match place.replace(value) {
            Some(_) => Err(format!("{what} is given twice")),
            None => Ok(()),
        }
    }

    fn route(self) -> Result<WebhookRoute, String> {
        let pointers = self.key.iter().chain(&self.id);
        for pointer in pointers {
            if !pointer.starts_with('/') {
                return Err(format!(
                    "{pointer:?} is not a JSON pointer; it must begin with /"
                ));
            }
        }
        let mut secrets = self.secrets.into_iter();
        let (Some(signal), Some(secret)) = (self.signal, secrets.next()) else {
            return Err(SHAPE.to_owned());
        };
        let route = match (self.machine, self.key, self.id) {
            (Some(machine), Some(key), None) => WebhookRoute::to_key(machine, key, signal, secret),
            (None, None, Some(id)) => WebhookRoute::to_id(id, signal, secret),
            (_, _, _) => return Err(SHAPE.to_owned()),
        };
        match (secrets.next(), secrets.next()) {
            (None, _) => Ok(route),
            (Some(second), None) => Ok(route.or_secret(second)),
            (Some(_), Some(_)) => Err("a webhook has at most two secrets".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> String {
        WebhookSecret::generate().unwrap().0
    }

    #[test]
    fn a_webhook_line_names_its_target_by_key_or_by_id() {
        let (one, two) = (secret(), secret());
        for line in [
            format!("payments signal=paid machine=checkout key=/data/order secret={one}"),
            format!("payments secret={one} id=/instance signal=paid secret={two}"),
        ] {
            let (name, _) = read_webhook(&line).unwrap();
            assert_eq!(name, "payments");
        }
    }

    #[test]
    fn an_incomplete_or_invalid_webhook_line_is_refused() {
        let secret = secret();
        for (line, expected) in [
            (
                format!("signal=paid id=/id secret={secret}"),
                "a line must be",
            ),
            (format!("p signal=paid secret={secret}"), "a line must be"),
            ("p signal=paid id=/id".to_owned(), "a line must be"),
            (
                format!("p signal=paid machine=m secret={secret}"),
                "a line must be",
            ),
            (
                format!("p signal=paid machine=m key=/k id=/i secret={secret}"),
                "a line must be",
            ),
            (
                format!("p signal=paid id=id secret={secret}"),
                "not a JSON pointer",
            ),
            (
                format!("p signal=a signal=b id=/id secret={secret}"),
                "twice",
            ),
            (
                "p signal=paid id=/id secret=hunter2".to_owned(),
                "a secret must be",
            ),
            (
                format!("p signal=paid id=/id secret={secret} secret={secret} secret={secret}"),
                "at most two",
            ),
            (
                format!("p signal=paid ip=/id secret={secret}"),
                "unknown field \"ip\"",
            ),
        ] {
            let why = read_webhook(&line).unwrap_err();
            assert!(why.contains(expected), "{line}: {why}");
            assert!(!why.contains("hunter2"), "{why}");
        }
    }
}
