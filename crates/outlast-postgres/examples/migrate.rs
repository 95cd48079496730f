//! Brings the schema of a database to this version, or shows what that would take.
//!
//! ```text
//! migrate URL [--schema NAME]            runs what is missing, and prints the version there is then
//! migrate --status URL [--schema NAME]   prints the version there is, and the one this build needs
//! migrate --print [--schema NAME]        prints the SQL, for people who run it themselves
//! ```
//!
//! With `--worker ROLE`, `--enqueuer ROLE` or `--reader ROLE`, each as often as there are roles, these are given their
//! rights in the schema afterwards, or that SQL is printed too; `--grants` prints it alone.
//!
//! Data goes to stdout, everything else to stderr.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command line"
)]

use outlast_core::Store;
use outlast_postgres::{Postgres, Roles, SCHEMA_VERSION, migrations_sql};
use std::process::ExitCode;

const USAGE: &str = "usage: migrate [--print | --grants | --status URL | URL] [--schema NAME] \
                     [--worker ROLE | --enqueuer ROLE | --reader ROLE]...";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args().skip(1)).await {
        Ok(data) => {
            println!("{data}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("migrate: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Does what the arguments ask for, and answers what goes to stdout.
pub(crate) async fn run(arguments: impl Iterator<Item = String>) -> Result<String, String> {
    let asked = parse(arguments)?;
    match asked.task {
        Task::Print => print(&asked),
        Task::Grants => grants(&asked),
        Task::Status(url) => status(&url, asked.schema).await,
        Task::Run(ref url) => migrate(url, &asked).await,
    }
    .map(|data| data.trim_end().to_owned())
}

fn print(asked: &Asked) -> Result<String, String> {
    let mut sql = migrations_sql(&asked.schema).map_err(|invalid| invalid.to_string())?;
    if asked.names_roles() {
        sql = format!("{sql}\n{}", grants(asked)?);
    }
    Ok(sql)
}

fn grants(asked: &Asked) -> Result<String, String> {
    let sql = asked.roles.sql(&asked.schema);
    sql.map_err(|invalid| invalid.to_string())
}

async fn status(url: &str, schema: String) -> Result<String, String> {
    let options = Postgres::options(url).map_err(|error| error.to_string())?;
    let version = options.schema(schema).schema_version().await;
    let version = version.map_err(|error| error.to_string())?;
    Ok(format!("version {version}\nneeded {SCHEMA_VERSION}"))
}

async fn migrate(url: &str, asked: &Asked) -> Result<String, String> {
    let options = Postgres::options(url).map_err(|error| error.to_string())?;
    let options = options.schema(&asked.schema).max_connections(1);
    let store = options.clone().connect().await;
    store.map_err(|error| error.to_string())?.close().await;
    if asked.names_roles() {
        let granted = options.grant(&asked.roles).await;
        granted.map_err(|error| error.to_string())?;
    }
    Ok(format!("version {SCHEMA_VERSION}"))
}

struct Asked {
    task: Task,
    schema: String,
    roles: Roles,
}

impl Asked {
    fn names_roles(&self) -> bool {
        self.roles != Roles::new()
    }
}

enum Task {
    Print,
    Grants,
    Status(String),
    Run(String),
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Asked, String> {
    let (mut task, mut schema, mut roles) = (None, "outlast".to_owned(), Roles::new());
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let missing = || format!("{argument} needs a value; {USAGE}");
            arguments.next().ok_or_else(missing)
        };
        let found = match argument.as_str() {
            "--schema" => {
                schema = value()?;
                continue;
            }
            "--worker" => {
                roles = roles.worker(value()?);
                continue;
            }
            "--enqueuer" => {
                roles = roles.enqueuer(value()?);
                continue;
            }
            "--reader" => {
                roles = roles.reader(value()?);
                continue;
            }
            "--print" => Task::Print,
            "--grants" => Task::Grants,
            "--status" => Task::Status(value()?),
            // The argument is not shown: a URL may hold a password.
            flag if flag.starts_with('-') => return Err(format!("unknown option; {USAGE}")),
            _ => Task::Run(argument),
        };
        if task.replace(found).is_some() {
            return Err(format!("more than one thing to do; {USAGE}"));
        }
    }
    let task = task.ok_or(USAGE)?;
    Ok(Asked {
        task,
        schema,
        roles,
    })
}
