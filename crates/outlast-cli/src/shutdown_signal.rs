//! Waits for Ctrl-C or a termination signal.

/// Completes when the user presses Ctrl-C or the system asks the process to end. It listens from
/// the call on, not from the first poll: a supervisor may stop the process right after its start.
/// If no handler can be installed, it never completes and the default action applies.
#[cfg(unix)]
pub(crate) fn requested() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = signal(SignalKind::interrupt());
    let terminated = signal(SignalKind::terminate());
    async {
        tokio::select! {
            () = received(interrupted) => {}
            () = received(terminated) => {}
        }
    }
}

#[cfg(unix)]
async fn received(signal: std::io::Result<tokio::signal::unix::Signal>) {
    match signal {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Completes when the user presses Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn requested() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
