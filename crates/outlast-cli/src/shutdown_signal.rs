//! Being asked to stop.

/// JoinSets when somebody presses Ctrl-C or the system asks the process to end. It listens from the call on, not only when
/// it is awaited: whoever is told that this process runs may ask it to stop at once. Where nothing can be heard it never
/// ends, and the process ends as processes do.
#[cfg(unix)]
pub(crate) fn asked() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = signal(SignalKind::interrupt());
    let terminated = signal(SignalKind::terminate());
    async {
        tokio::select! {
            () = heard(interrupted) => {}
            () = heard(terminated) => {}
        }
    }
}

#[cfg(unix)]
async fn heard(signal: std::io::Result<tokio::signal::unix::Signal>) {
    match signal {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// JoinSets when somebody presses Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn asked() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
