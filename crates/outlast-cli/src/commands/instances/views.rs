//! `outlast views`: shows the values that a workflow has published.

use super::target::{find, target};
use crate::database::Database;
use crate::failure::Failure;
use crate::format::{harmless, relative, shortened};
use crate::json::ViewObject;
use crate::output::{Format, Output, note};
use crate::table::{Table, cell};
use clap::Args;
use outlast::store::Target;

/// The number of characters of a value in one line.
const VALUE_CHARS_MAX: usize = 120;

/// Arguments of `views`.
#[derive(Args, Debug)]
pub(crate) struct ViewsArgs {
    /// A workflow: the id of an instance, or MACHINE/KEY
    #[arg(value_name = "ID|MACHINE/KEY", value_parser = target)]
    target: Target,
    /// Show only the value of this name, in full
    name: Option<String>,
}

pub(crate) async fn run(
    args: &ViewsArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let client = &database.client;
    let admin = client.admin();
    let instance = find(client, &args.target).await?;
    let mut views = admin.views(instance.id).await?;
    if let Some(name) = &args.name {
        views.retain(|view| view.name == *name);
        let Some(view) = views.first() else {
            let (id, machine) = (instance.id, &instance.machine);
            return Err(Failure::NotFound(format!(
                "instance {id} of {machine} has published nothing as {name:?}"
            )));
        };
        return match output.format == Format::Json {
            true => output.json(&ViewObject::of(view)),
            false => output.line(harmless(view.data.as_str())),
        };
    }
    if output.format == Format::Json {
        return views
            .iter()
            .try_for_each(|view| output.json(&ViewObject::of(view)));
    }
    if views.is_empty() {
        note(format!("instance {} has published nothing", instance.id));
        return Ok(());
    }
    let now = admin.now().await?;
    let mut table = Table::new(output, &["view", "value", "revision", "written"]);
    for view in &views {
        table.row([
            cell(&view.name),
            cell(shortened(view.data.as_str(), VALUE_CHARS_MAX)),
            cell(view.revision.to_string()),
            cell(relative(view.at, now)),
        ]);
    }
    output.table(&table)
}
