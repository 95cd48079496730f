//! `outlast doctor`: checks the database and suggests remedies.

use crate::database::Database;
use crate::failure::Failure;
use crate::json;
use crate::output::{Format, Output, note};
use crate::table::{self, Table, cell};
use clap::Args;
use outlast::store::{Finding, Severity};

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Exit with code 1 on warnings too
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(
    args: &DoctorArgs,
    database: &Database,
    output: &Output,
) -> Result<(), Failure> {
    let mut findings = database.client.admin().doctor().await?;
    // The most severe first.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    match output.format {
        Format::Json => findings
            .iter()
            .try_for_each(|it| output.json(&json::finding(it)))?,
        Format::Ids => bad(&findings).try_for_each(|it| output.line(it.check))?,
        Format::Table => print(&findings, output)?,
    }
    let of = |severity| findings.iter().filter(|it| it.severity == severity).count();
    let (all, serious, warnings) = (findings.len(), of(Severity::Serious), of(Severity::Warning));
    note(format!(
        "{all} checks: {serious} serious, {warnings} warnings"
    ));
    match serious > 0 || (args.strict && warnings > 0) {
        true => Err(Failure::Reported),
        false => Ok(()),
    }
}

fn bad(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings
        .iter()
        .filter(|finding| finding.severity > Severity::Fine)
}

fn print(findings: &[Finding], output: &Output) -> Result<(), Failure> {
    let mut table = Table::new(output, &["check", "is", "found"]);
    for finding in findings {
        let severity = table::severity(finding.severity);
        table.row([cell(finding.check), severity, cell(&finding.found)]);
    }
    output.table(&table)?;
    for finding in bad(findings) {
        output.line("")?;
        output.line(format!("{}: {}", finding.check, finding.remedy))?;
    }
    Ok(())
}
