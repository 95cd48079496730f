//! `outlast query`: asks a workflow, which its code answers.
//!
//! This program has no code of users, so it asks a server whose process has it.

use super::target::target;
use crate::failure::Failure;
use crate::output::{Format, Output, note};
use crate::parameters::Payload;
use crate::server_client::{ServerArgs, encoded};
use clap::Args;
use outlast::store::Target;
use serde::Deserialize;

/// Arguments of `query`.
#[derive(Args, Debug)]
pub(crate) struct QueryArgs {
    /// A workflow: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// The name of the query; without it, list the names
    name: Option<String>,
    #[command(flatten)]
    payload: Payload,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: &QueryArgs, output: &Output) -> Result<(), Failure> {
    let server = args.server.server()?;
    let query = args.payload.json()?;
    let id = server.id_of(&args.target).await?;
    let queries = format!("/v1/instances/{id}/queries");
    let Some(name) = &args.name else {
        let listed = server.request("GET", &queries, None).await?;
        return list(&id, &listed, output);
    };
    let path = format!("{queries}/{}", encoded(name));
    let reply = server.request("POST", &path, Some(&query)).await?;
    output.document(&reply)
}

fn list(id: &str, listed: &str, output: &Output) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Listed {
        queries: Vec<String>,
    }
    if output.format == Format::Json {
        return output.document(listed);
    }
    let listed: Listed =
        serde_json::from_str(listed).map_err(|error| Failure::Failed(error.to_string()))?;
    if listed.queries.is_empty() {
        note(format!("instance {id} answers no query"));
    }
    listed.queries.iter().try_for_each(|name| output.line(name))
}
