//! try
use outlast::prelude::*;
use outlast::{Fails, Job, JobError};
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("no")]
struct No;
#[workflow(error = No)]
async fn refuse(flow: Flow) -> FlowResult<()> {
    match flow.run(Charge::with(1_u64)).await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.downcast::<Charge>()?)?,
    }
}
struct Charge;
impl Job for Charge {
    const NAME: &'static str = "zz_charge";
    type Args = u64;
    type Output = ();
    async fn perform(&self, _: u64, _: &Context) -> Result<(), JobError> {
        Err(JobError::fatal(No).typed::<Charge>())
    }
}
impl Fails for Charge { type Error = No; }
#[tokio::main]
async fn main() -> outlast::Result<()> {
    let engine = Engine::sqlite_in_memory()?.register(refuse).register(Charge).start().await?;
    let it = engine.start(refuse::with()).await?;
    let e = it.output().timeout(MINUTE).await.expect_err("no");
    println!("{e}");
    println!("{:?}", e.downcast::<refuse>().map_err(|e| e.to_string()));
    engine.shutdown().await
}
