//! `outlast token`: creates tokens for the HTTP API.
//!
//! A tokens file has one line per token: its name, its role, the hash of its secret, and its
//! scope. Only the owner of the token has the secret.

use super::line_files::read_lines;
use crate::failure::Failure;
use crate::output::{Format, Output, note};
use clap::Args;
use outlast_http::{Role, Token};
use serde_json::json;
use std::path::Path;

/// Arguments of `token`.
#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    /// The name of the token, recorded with its operations
    name: String,
    /// The role: read, signal, operate or admin; each includes those before it
    #[arg(long, default_value = "read", value_parser = role)]
    role: Role,
    /// Limit the token to instances in these queues
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    queue: Vec<String>,
    /// Limit the token to instances of these machines
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    machine: Vec<String>,
}

fn role(word: &str) -> Result<Role, String> {
    word.parse()
        .map_err(|bad: outlast_http::BadToken| bad.to_string())
}

pub(crate) fn run(args: &TokenArgs, output: &Output) -> Result<(), Failure> {
    if args.name.is_empty() || args.name.contains(char::is_whitespace) || args.name.starts_with('#')
    {
        let words = "a token name must be one word and must not begin with #";
        return Err(Failure::Usage(words.to_owned()));
    }
    let made = Token::generate(&args.name, args.role);
    let (secret, token) = made.map_err(|bad| Failure::Failed(bad.to_string()))?;
    let line = args.line(&token.hash());
    match output.format {
        Format::Json => output.json(&json!({"secret": secret, "line": line})),
        Format::Table | Format::Ids => {
            note("the secret, shown only once, then the line for the --tokens file:");
            output.line(secret)?;
            output.line(line)
        }
    }
}

impl TokenArgs {
    fn line(&self, hash: &str) -> String {
        let mut line = format!("{} {} {hash}", self.name, self.role);
        for (word, names) in [("queue", &self.queue), ("machine", &self.machine)] {
            if !names.is_empty() {
                line += &format!(" {word}={}", names.join(","));
            }
        }
        line
    }
}

/// Reads the tokens of a file.
pub(crate) fn read_tokens(file: &Path) -> Result<Vec<Token>, Failure> {
    let tokens = read_lines(file, read_token)?;
    match tokens.is_empty() {
        // An empty file would turn authentication off.
        true => Err(Failure::Usage(format!(
            "{} contains no tokens",
            file.display()
        ))),
        false => Ok(tokens),
    }
}

fn read_token(line: &str) -> Result<Token, String> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(word), Some(hash)) = (words.next(), words.next(), words.next()) else {
        return Err(
            "a line must have a name, a role and a hash; create one with `outlast token`"
                .to_owned(),
        );
    };
    let token = Token::hashed(name, role(word)?, hash);
    let mut token = token.map_err(|bad| bad.to_string())?;
    for word in words {
        token = match word.split_once('=') {
            Some(("queue", names)) => token.queues(names.split(',')),
            Some(("machine", names)) => token.machines(names.split(',')),
            Some(_) | None => return Err(format!("{word:?} is neither queue=… nor machine=…")),
        };
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Token>, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        std::fs::write(&file, text).unwrap();
        read_tokens(&file)
    }

    #[test]
    fn the_printed_token_line_is_read_back() {
        let (_, token) = Token::generate("shop", Role::Signal).unwrap();
        let args = TokenArgs {
            name: "shop".into(),
            role: Role::Signal,
            queue: vec!["orders".into(), "mail".into()],
            machine: vec!["checkout".into()],
        };
        let line = args.line(&token.hash());
        let tokens = read(&format!("# who may\n\n{line}\n")).unwrap();
        let expected = token.queues(["orders", "mail"]).machines(["checkout"]);
        assert_eq!(tokens.len(), 1);
        assert_eq!(format!("{:?}", tokens[0]), format!("{expected:?}"));
        assert_eq!(tokens[0].hash(), expected.hash());
    }

    #[test]
    fn a_token_file_without_valid_tokens_is_refused() {
        for (text, expected) in [
            ("", "contains no tokens"),
            ("# nobody\n", "contains no tokens"),
            ("shop signal", "line 1"),
            ("shop king sha256:x", "unknown role"),
            ("shop read secret", "a hash must be"),
        ] {
            let failure = read(text).unwrap_err();
            assert_eq!(failure.code(), 2);
            assert!(failure.message().unwrap().contains(expected), "{failure:?}");
        }
    }
}
