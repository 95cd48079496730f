//! How far a long work has come, on stderr; nothing where that is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outlast::Count;

/// A bar for about so many; without an end where nobody knows how many there are.
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
