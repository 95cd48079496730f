//! Finds the password that a URL leaves out, where PostgreSQL's own programs look for it.
//!
//! The places are `PGPASSWORD`, then the file that `PGPASSFILE` names, or `~/.pgpass`. Only
//! `Options::find_password` calls this, as the command line does. A store never looks by itself.

use std::path::{Path, PathBuf};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Returns the password for the first host of `config` that has one.
pub(crate) fn find(config: &Config) -> Option<String> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(password) = set("PGPASSWORD") {
        return Some(password);
    }
    let file = set("PGPASSFILE").map(PathBuf::from);
    let file = file.or_else(|| set("HOME").map(|home| Path::new(&home).join(".pgpass")))?;
    let lines = read(&file)?;
    let user = config.get_user().map(str::to_owned);
    let user = user.or_else(|| set("PGUSER").or_else(|| set("USER")))?;
    let database = config.get_dbname().unwrap_or(&user);
    let mut hosts = config.get_hosts().iter().enumerate();
    hosts.find_map(|(position, host)| {
        let ports = config.get_ports();
        let port = ports.get(position).or(ports.first()).unwrap_or(&5432);
        password_in(&lines, &[&name(host), &port.to_string(), database, &user])
    })
}

/// Returns the host's name in the file. A socket directory stands for this machine.
fn name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(_) => "localhost".to_owned(),
    }
}

/// Reads a file that only its owner may read. Ignores any other, as PostgreSQL's programs do.
fn read(file: &Path) -> Option<String> {
    let found = std::fs::metadata(file).ok().filter(|it| it.is_file())?;
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o077 != 0 {
        let file = file.display();
        tracing::warn!(%file, "others may read the password file, so it is not used: chmod 0600");
        return None;
    }
    std::fs::read_to_string(file).ok()
}

/// Returns the password of the first matching line `host:port:database:user:password`.
///
/// `*` matches everything. A backslash escapes a colon or another backslash.
fn password_in(lines: &str, wanted: &[&str; 4]) -> Option<String> {
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    lines.map(fields).find_map(|mut fields| {
        let fits = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        let is_whole = fields.len() == 5;
        let fits = is_whole && fields.iter().zip(wanted).all(fits);
        fits.then(|| fields.pop()).flatten()
    })
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let taken = match c {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            c => c,
        };
        if let Some(field) = fields.last_mut() {
            field.push(taken);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "# a comment:5432:*:*:no\n\
        db:5432:shop:ada:first\n\
        db:*:*:ada:second:with\\\\a\\:colon\n\
        localhost:5432:*:*:here\n\
        broken:5432\n";

    #[test]
    fn the_first_matching_line_gives_the_password() {
        for (wanted, expected) in [
            (["db", "5432", "shop", "ada"], Some("first")),
            (["db", "6432", "shop", "ada"], Some("second:with\\a:colon")),
            (["db", "5432", "shop", "bob"], None),
            (["localhost", "5432", "shop", "bob"], Some("here")),
            (["broken", "5432", "x", "y"], None),
            (["# a comment", "5432", "x", "y"], None),
        ] {
            assert_eq!(
                password_in(LINES, &wanted).as_deref(),
                expected,
                "{wanted:?}"
            );
        }
    }
}
