//! A progress bar on stderr; hidden unless stderr is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlast::store::Count;

/// Returns a bar for about this many items, or a spinner if the number is unknown.
pub(crate) fn bar(verb: &'static str, expected: Option<Count>) -> ProgressBar {
    let bar = match expected {
        Some(Count::Exactly(number)) => ProgressBar::new(number),
        Some(Count::AtLeast(_)) | None => ProgressBar::no_length(),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    let template = match expected {
        Some(Count::Exactly(_)) => "{msg} {bar:32} {pos}/{len} ({per_sec}, {eta} left)",
        Some(Count::AtLeast(_)) | None => "{msg} {spinner} {pos} ({per_sec})",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(verb);
    bar
}
