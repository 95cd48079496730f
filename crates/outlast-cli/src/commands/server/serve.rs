//! `outlast serve`: serves the HTTP API and the dashboard of a database.

use super::token::read_tokens;
use super::webhooks::read_webhooks;
use crate::database::Database;
use crate::failure::Failure;
use crate::output::Output;
use crate::server::BoundServer;
use crate::shutdown_signal;
use clap::Args;
use outlast_http::Settings;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The address to listen on; an address that other machines can reach needs --tokens
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
    /// The port; 0 takes any free port
    #[arg(long, value_name = "PORT", default_value_t = 7700)]
    port: u16,
    /// Require one of the tokens in this file: one line each, as printed by `outlast token`
    #[arg(long, value_name = "FILE", env = "OUTLAST_TOKENS")]
    tokens: Option<PathBuf>,
    /// Turn signed messages (Standard Webhooks) into signals. The file has one line each, NAME
    /// signal=NAME machine=NAME key=/pointer/into/the/body secret=whsec_…; they are received at
    /// /v1/webhooks/NAME
    #[arg(long, value_name = "FILE", env = "OUTLAST_WEBHOOKS")]
    webhooks: Option<PathBuf>,
    /// Serve requests to this host name
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Let pages of this origin change data, such as `https://outlast.example.com`
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// The path at which a proxy shows this server, such as /outlast
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
}

impl ServeArgs {
    fn settings(&self) -> Result<Settings, Failure> {
        let mut settings = Settings::new();
        if let Some(file) = &self.tokens {
            settings = read_tokens(file)?
                .into_iter()
                .fold(settings, Settings::token);
        }
        if let Some(file) = &self.webhooks {
            let webhooks = read_webhooks(file)?.into_iter();
            settings = webhooks.fold(settings, |settings, (name, route)| {
                settings.webhook(name, route)
            });
        }
        settings = self.allow_host.iter().fold(settings, Settings::allow_host);
        settings = self
            .allow_origin
            .iter()
            .fold(settings, Settings::allow_origin);
        Ok(match &self.base_path {
            Some(path) => settings.base_path(path),
            None => settings,
        })
    }
}

pub(crate) async fn run(
    args: &ServeArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let address = SocketAddr::new(args.address, args.port);
    let server = BoundServer::at(address, args.settings()?)
        .await?
        .with_metrics()?;
    server
        .serve(
            database.client.clone(),
            output,
            shutdown_signal::requested(),
        )
        .await
}
