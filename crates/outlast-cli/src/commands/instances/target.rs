//! An instance by its id, or by its machine and correlation key.

use crate::failure::Failure;
use crate::filters;
use outlast::store::{Instance, Target, key};
use outlast::{Client, InstanceId};

/// Parses `42`, `checkout/order:42`, or `checkout\x00ff` with the key as it is shown.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    if let Ok(id) = text.parse() {
        return Ok(Target::Id(InstanceId(id)));
    }
    // Without a slash, so that no text key can be meant.
    if !text.contains('/')
        && let Some((machine, digits)) = text.rsplit_once(r"\x")
        && !machine.is_empty()
    {
        return Ok(Target::Key {
            machine: machine.to_owned(),
            key: filters::hex_key(digits)?.into(),
        });
    }
    // A key may contain a slash, the name of a machine may not.
    match text.split_once('/') {
        Some((machine, key)) if !machine.is_empty() && !key.is_empty() => Ok(Target::Key {
            machine: machine.to_owned(),
            key: key.to_owned(),
        }),
        Some(_) | None => Err(format!(
            "{text:?} is neither an instance id nor MACHINE/KEY"
        )),
    }
}

/// Returns the instance, or the failure that it does not exist.
pub(crate) async fn find(client: &Client, target: &Target) -> Result<Instance, Failure> {
    let found = client.find(target.clone()).await?;
    found.ok_or_else(|| not_found(target))
}

/// The failure for an instance that does not exist.
pub(crate) fn not_found(target: &Target) -> Failure {
    Failure::NotFound(match target {
        Target::Id(id) => {
            format!("instance {id} does not exist, or was deleted after it finished")
        }
        Target::Key { machine, key } => format!(
            "no instance of machine {machine} has the key {}, or it was deleted after it finished",
            key::shown(key)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_id_or_a_machine_and_a_key() {
        assert_eq!(target("42"), Ok(Target::Id(InstanceId(42))));
        let key = |machine: &str, key: &str| Target::Key {
            machine: machine.to_owned(),
            key: key.to_owned(),
        };
        assert_eq!(target("checkout/order:42"), Ok(key("checkout", "order:42")));
        assert_eq!(target("files/a/b"), Ok(key("files", "a/b")));
        assert_eq!(target(r"checkout\x00ff"), Ok(key("checkout", "\u{1}00ff")));
        // A text key that begins like one in hexadecimal.
        assert_eq!(target(r"checkout/\x00ff"), Ok(key("checkout", r"\x00ff")));
        for wrong in ["", "checkout", "/x", "x/", "4.2", r"\x00ff", r"checkout\x0"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
