//! Runs the program with the command lines, probes and variables of `deploy/` and the Dockerfile.

use crate::demonstrating::Serving;
use crate::support::{Ran, Site, bare};
use std::fs;
use std::path::Path;

/// Reads a file of the repository.
fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap()
}

/// Returns the text after `key` on each line that begins with it, with any indentation.
fn values<'a>(text: &'a str, key: &'a str) -> Vec<&'a str> {
    let lines = text.lines();
    lines
        .filter_map(|line| line.trim_start().strip_prefix(key))
        .map(str::trim)
        .collect()
}

fn only<'a>(text: &'a str, key: &'a str) -> &'a str {
    let found = values(text, key);
    assert_eq!(found.len(), 1, "{key} occurs {} times", found.len());
    found[0]
}

/// Parses a command line in the list form of Docker and Kubernetes.
fn list(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the command line of the systemd service.
fn service() -> Vec<String> {
    let unit = read("deploy/systemd/outlast-serve.service");
    let mut words = only(&unit, "ExecStart=")
        .split_whitespace()
        .map(str::to_owned);
    assert_eq!(words.next().as_deref(), Some("/usr/local/bin/outlast"));
    words.collect()
}

/// Returns a database and a file of tokens beside it, because every deployment needs one.
async fn site_with_tokens() -> Site {
    let site = Site::sqlite().await;
    let made = site
        .run(["token", "you", "--role", "read"])
        .succeeds()
        .out();
    fs::write(
        site.folder.path().join("tokens"),
        made.lines().last().unwrap(),
    )
    .unwrap();
    site
}

fn serve(site: &Site, arguments: &[String]) -> Serving {
    let mut command = site.command([]);
    command
        .args(arguments)
        .args(["--port", "0"])
        .env("OUTLAST_TOKENS", "tokens");
    Serving::start(command)
}

#[tokio::test]
async fn every_deployed_command_line_serves() {
    let site = site_with_tokens().await;
    let lines = [
        list(only(&read("Dockerfile"), "CMD ")),
        list(only(&read("deploy/kubernetes/serve.yaml"), "args: ")),
        service(),
    ];
    for arguments in lines {
        assert_eq!(arguments[0], "serve");
        let serving = serve(&site, &arguments);
        let (status, _) = serving.get_of("localhost", "/healthz");
        assert_eq!(status, 200, "{arguments:?}");
        let (status, _) = serving.get_of("localhost", "/v1/instances");
        assert_eq!(status, 401, "{arguments:?}");
        serving.stop();
    }
    site.clear().await;
}

#[tokio::test]
async fn the_probes_are_answered_for_the_host_that_they_name() {
    let site = site_with_tokens().await;
    let manifest = read("deploy/kubernetes/serve.yaml");
    let serving = serve(&site, &list(only(&manifest, "args: ")));
    assert_eq!(values(&manifest, "path: "), ["/healthz", "/readyz"]);
    let hosts = values(&manifest, "httpHeaders: [{name: Host, value: ");
    assert_eq!(hosts.len(), 2);
    for (path, host) in values(&manifest, "path: ").into_iter().zip(hosts) {
        let (status, body) = serving.get_of(host.trim_end_matches("}]"), path);
        assert_eq!(status, 200, "{path} of {host}: {body}");
    }
    // A probe without a host header sends the address of its pod, which is refused.
    assert_ne!(serving.get_of("10.0.0.7:7700", "/healthz").0, 200);
    serving.stop();
    site.clear().await;
}

#[tokio::test]
async fn the_migration_job_migrates_a_database() {
    let manifest = read("deploy/kubernetes/migrate.yaml");
    let arguments = list(only(&manifest, "args: "));
    let folder = tempfile::tempdir().unwrap();
    let mut command = bare();
    command
        .args(arguments)
        .env("OUTLAST_DATABASE", folder.path().join("shop.db"));
    Ran::of(command).succeeds();
}

/// The port and the variables are in the help of `serve`.
#[test]
fn ports_and_variables_are_known_to_the_program() {
    let mut command = bare();
    command.args(["serve", "--help"]);
    let help = Ran::of(command).succeeds().out();
    assert!(help.contains("[default: 7700]"), "{help}");
    let docker = read("Dockerfile");
    let manifest = read("deploy/kubernetes/serve.yaml");
    assert_eq!(only(&docker, "EXPOSE "), "7700");
    assert_eq!(only(&manifest, "- {name: http, containerPort: "), "7700}");

    let texts = [
        docker,
        manifest,
        read("deploy/kubernetes/migrate.yaml"),
        read("deploy/systemd/outlast-serve.service"),
    ];
    let words = texts
        .iter()
        .flat_map(|text| text.split(|it: char| !it.is_ascii_uppercase() && it != '_'));
    let mut variables: Vec<_> = words.filter(|word| word.starts_with("OUTLAST_")).collect();
    variables.sort_unstable();
    variables.dedup();
    assert_eq!(variables, ["OUTLAST_DATABASE", "OUTLAST_TOKENS"]);
    for variable in variables {
        assert!(
            help.contains(&format!("[env: {variable}")),
            "{variable}: {help}"
        );
    }
}
