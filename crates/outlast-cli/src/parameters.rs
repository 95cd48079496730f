//! Parses `-p key=value` and `-p key:=json`, and builds the JSON document.

use crate::failure::Failure;
use clap::Args;
use outlast::store::Json;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// The largest document that is read from stdin: a larger one could not be stored.
const BYTES_MAX: u64 = outlast::store::limits::JSON_BYTES_MAX as u64;

/// One member of an object. Its value keeps its original text.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    key: String,
    value: Box<RawValue>,
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Parameter) -> bool {
        self.key == other.key && self.value.get() == other.value.get()
    }
}

/// Parses `key=value` (a string) or `key:=json`.
pub(crate) fn parameter(text: &str) -> Result<Parameter, String> {
    let wrong = || format!("{text:?} is neither key=value nor key:=json");
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    let (key, value) = match key.strip_suffix(':') {
        Some(key) => {
            let value = RawValue::from_string(value.to_owned());
            let value = value.map_err(|error| {
                format!("the value of {key} is not JSON: {error}; for a string use {key}=value")
            })?;
            (key, value)
        }
        None => {
            let value = serde_json::value::to_raw_value(value);
            (key, value.map_err(|error| error.to_string())?)
        }
    };
    if key.is_empty() {
        return Err(wrong());
    }
    Ok(Parameter {
        key: key.to_owned(),
        value,
    })
}

/// The state of an instance or the payload of a signal.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Payload {
    /// One member of the JSON object: `key=value` is a string, `key:=json` any JSON
    #[arg(short = 'p', long = "param", value_name = "KEY=VALUE", value_parser = parameter)]
    pub(crate) parameters: Vec<Parameter>,

    /// The whole JSON document; `-` reads it from stdin. Members given with -p are added to it
    #[arg(long, visible_alias = "payload", value_name = "JSON")]
    pub(crate) state: Option<String>,
}

impl Payload {
    /// Returns the document. Default: `null`.
    pub(crate) fn json(&self) -> Result<Json, Failure> {
        let whole = match self.state.as_deref() {
            Some("-") => Some(read_stdin()?),
            Some(text) => Some(text.to_owned()),
            None => None,
        };
        let text = match (whole, self.parameters.is_empty()) {
            (Some(text), true) => text.trim().to_owned(),
            (None, true) => "null".to_owned(),
            (whole, false) => merged(whole.as_deref(), &self.parameters)?,
        };
        Json::parse(text).map_err(|invalid| Failure::Usage(invalid.to_string()))
    }
}

fn merged(whole: Option<&str>, parameters: &[Parameter]) -> Result<String, Failure> {
    let members = serde_json::from_str(whole.unwrap_or("{}"));
    let mut members: BTreeMap<String, Box<RawValue>> = members.map_err(|error| {
        Failure::Usage(format!(
            "--state must be a JSON object when -p is given: {error}"
        ))
    })?;
    let mut given = BTreeSet::new();
    for Parameter { key, value } in parameters {
        if !given.insert(key) {
            let words = format!("-p {key} is given twice");
            return Err(Failure::Usage(words));
        }
        members.insert(key.clone(), value.clone());
    }
    serde_json::to_string(&members).map_err(|error| Failure::Failed(error.to_string()))
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin()
        .take(BYTES_MAX + 1)
        .read_to_string(&mut text);
    read.map_err(|error| Failure::Usage(format!("cannot read stdin: {error}")))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(parameters: &[&str], state: Option<&str>) -> Result<String, Failure> {
        let parameters = parameters.iter().map(|text| parameter(text).unwrap());
        let payload = Payload {
            parameters: parameters.collect(),
            state: state.map(str::to_owned),
        };
        payload.json().map(|json| json.as_str().to_owned())
    }

    #[test]
    fn values_are_strings_unless_they_are_marked_as_json() {
        let json = payload(
            &["number=42", "amount:=100", "note=a=b", "lines:=[1, 2]"],
            None,
        );
        assert_eq!(
            json.unwrap(),
            r#"{"amount":100,"lines":[1, 2],"note":"a=b","number":"42"}"#
        );
        assert_eq!(payload(&[], None).unwrap(), "null");
    }

    #[test]
    fn big_numbers_stay_as_they_were_written() {
        let json = payload(
            &["n:=123456789012345678901234567890"],
            Some(r#"{"m":1.10}"#),
        );
        assert_eq!(
            json.unwrap(),
            r#"{"m":1.10,"n":123456789012345678901234567890}"#
        );
    }

    #[test]
    fn invalid_parameters_are_explained() {
        assert!(parameter("amount").unwrap_err().contains("key=value"));
        assert!(parameter("=x").is_err());
        assert!(
            parameter("a:={")
                .unwrap_err()
                .contains("the value of a is not JSON")
        );
        let failure = payload(&["a=b"], Some("[]")).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.message().unwrap().contains("must be a JSON object"));
        assert_eq!(payload(&[], Some("{")).unwrap_err().code(), 2);
        let twice = payload(&["a=1", "a:=2"], None).unwrap_err();
        assert!(twice.message().unwrap().contains("-p a is given twice"));
        // A member given with -p replaces the same member of the document.
        let over = payload(&["a=1"], Some(r#"{"a":0}"#)).unwrap();
        assert_eq!(over, r#"{"a":"1"}"#);
    }
}
