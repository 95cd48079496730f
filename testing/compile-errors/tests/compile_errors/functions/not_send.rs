//! Jobs and workflows that hold a value that is not `Send` while they await.

#![allow(unused)]

use outlast::JobError;
use outlast::prelude::*;
use std::rc::Rc;

#[job]
async fn send_mail(to: String, cx: &Context) -> Result<usize, JobError> {
    let to = Rc::new(to);
    cx.client().admin().queues().await?;
    Ok(to.len())
}

#[workflow]
async fn remind(flow: Flow, to: String) -> FlowResult<usize> {
    let to = Rc::new(to);
    flow.sleep(DAY).await?;
    Ok(to.len())
}

#[workflow]
async fn other_future(flow: Flow, to: String) -> FlowResult<usize> {
    Ok(local(Rc::new(to)).await)
}

async fn local(to: Rc<String>) -> usize {
    std::future::ready(()).await;
    to.len()
}

fn main() {}
