//! Serves the HTTP API and the dashboard in this process, for `serve` and `demo`.

use crate::failure::Failure;
use crate::output::{Output, note};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use outlast::{Client, metrics};
use outlast_http::{ServeLimits, Settings};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// How often the metrics recorder drains its histograms, which otherwise grow without bound.
const UPKEEP: Duration = Duration::from_secs(5);

/// A bound listener that does not serve yet.
pub(crate) struct BoundServer {
    listener: TcpListener,
    settings: Settings,
    address: SocketAddr,
}

impl BoundServer {
    /// Listens at `address`. If other machines can reach it, the settings must have a token.
    pub(crate) async fn at(
        address: SocketAddr,
        settings: Settings,
    ) -> Result<BoundServer, Failure> {
        let guarded = outlast_http::check_address(address, &settings);
        guarded.map_err(|error| {
            Failure::Refused(format!(
                "{error}; create one with `outlast token` and pass it with --tokens"
            ))
        })?;
        let cannot = |error| {
            Failure::Failed(format!(
                "cannot listen on {address}: {error}; choose another port with --port, or any free port with --port 0"
            ))
        };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        Ok(BoundServer {
            listener,
            settings,
            address,
        })
    }

    /// Records metrics for `/metrics`. Call it before anything is measured.
    pub(crate) fn with_metrics(mut self) -> Result<BoundServer, Failure> {
        let failed = |error: BuildError| Failure::Failed(error.to_string());
        let seconds = Matcher::Suffix("_seconds".into());
        let batches = Matcher::Suffix("_batch_size".into());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(seconds, &metrics::SECONDS_BUCKETS)
            .and_then(|it| it.set_buckets_for_metric(batches, &metrics::BATCH_BUCKETS))
            .and_then(PrometheusBuilder::install_recorder)
            .map_err(failed)?;
        let upkeep = recorder.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        self.settings = self.settings.metrics(move || recorder.render());
        Ok(self)
    }

    /// Serves until `stop` completes. It prints the address.
    pub(crate) async fn serve(
        self,
        client: Client,
        output: &Output,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        output.line(format!("http://{}/", self.address))?;
        note("press Ctrl-C to stop");
        let router = outlast_http::router(client, self.settings);
        let served = outlast_http::serve(self.listener, router, ServeLimits::default(), stop);
        let failed = |error| Failure::Failed(format!("server failed: {error}"));
        served.await.map_err(failed)
    }
}
