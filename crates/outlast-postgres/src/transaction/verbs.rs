//! The statements, parameters and answers that the drivers' adapters share.
//!
//! `verbs/enqueue.rs` uses them too. No driver's type occurs here.

use crate::options::check_schema_name;
use crate::session::statement::{self, in_schema};
use crate::verbs::insert::{delay_us, moment_us, scope_literal};
use outlast_core::limits::INBOX_MAX;
use outlast_core::{
    Correlation, Delivery, Error, Inserted, InstanceId, Invalid, NewInstance, SignalId, Source,
    Target, micros,
};
use std::sync::Arc;

/// The schema that holds the instances, and the statements for it. Cheap to clone.
///
/// A [`Postgres`](crate::Postgres) stands for its own schema. Default: `outlast`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    name: Arc<str>,
    insert: Arc<str>,
    signal: Arc<str>,
}

impl Schema {
    /// Returns the schema of this name, or an error if a store cannot have that name.
    pub fn new(name: &str) -> Result<Schema, Invalid> {
        check_schema_name(name)?;
        Ok(Schema::of(name))
    }

    /// Returns the schema of a name that has been checked.
    pub(crate) fn of(name: &str) -> Schema {
        Schema {
            name: name.into(),
            insert: in_schema(statement::TRANSACTION_INSERT.text, name).into(),
            signal: in_schema(statement::TRANSACTION_SIGNAL.text, name).into(),
        }
    }

    /// Returns the name of the schema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the statement that starts an instance.
    ///
    /// Its header lists the parameters. It answers one row, with the new `id` or with the `holder`
    /// of the correlation key.
    pub fn insert_statement(&self) -> &str {
        &self.insert
    }

    /// Returns the statement that sends a signal.
    ///
    /// Its header lists the parameters. It answers one row: the `answer` in a word, the signal's
    /// `id`, the `instance`, whether it `woke`, and its `queue` if it did.
    pub fn signal_statement(&self) -> &str {
        &self.signal
    }
}

impl Default for Schema {
    fn default() -> Schema {
        Schema::of("outlast")
    }
}

impl AsRef<Schema> for Schema {
    fn as_ref(&self) -> &Schema {
        self
    }
}

/// The last parameter of a signal: how many unconsumed signals an inbox may hold.
///
/// The function takes no larger number from any caller.
pub(crate) const SIGNAL_MAX: i64 = INBOX_MAX as i64;

/// The parameters that need a conversion.
pub(crate) struct Values<'a> {
    pub(crate) delay_us: i64,
    pub(crate) at_us: Option<i64>,
    pub(crate) correlation_key: Option<&'a str>,
    pub(crate) scope: Option<String>,
    pub(crate) timeout_us: Option<i64>,
    pub(crate) run_timeout_us: Option<i64>,
}

impl<'a> Values<'a> {
    pub(crate) fn of(new: &'a NewInstance) -> Values<'a> {
        let correlation: Option<&Correlation> = new.correlation.as_ref();
        Values {
            delay_us: delay_us(new.start),
            at_us: moment_us(new.start),
            correlation_key: correlation.map(|it| it.key.as_str()),
            scope: correlation.map(|it| scope_literal(it.scope)),
            timeout_us: new.timeout.map(micros),
            run_timeout_us: new.run_timeout.map(micros),
        }
    }

    /// Returns the id, the machine and the key that address a signal.
    pub(crate) fn address(target: &Target) -> (Option<i64>, Option<&str>, Option<&str>) {
        match target {
            Target::Id(id) => (Some(id.0), None, None),
            Target::Key { machine, key } => (None, Some(machine), Some(key)),
        }
    }
}

/// The row that answers an insert.
pub(crate) struct InsertedRow {
    pub(crate) id: Option<i64>,
    pub(crate) holder: Option<i64>,
}

impl InsertedRow {
    pub(crate) fn answer(self) -> Inserted {
        match self.id {
            Some(id) => Inserted::New {
                id: InstanceId(id),
                claimed: None,
            },
            None => Inserted::Duplicate {
                holder: self.holder.map(InstanceId),
            },
        }
    }
}

/// The row that answers a signal.
pub(crate) struct DeliveredRow {
    pub(crate) answer: String,
    pub(crate) id: Option<i64>,
    pub(crate) instance: Option<i64>,
    pub(crate) woke: bool,
}

impl DeliveredRow {
    pub(crate) fn answer(self) -> Result<Delivery, Error> {
        let instance = self.instance.map(InstanceId);
        match (self.answer.as_str(), instance, self.id) {
            ("delivered", Some(instance), Some(id)) => Ok(Delivery::Delivered {
                id: SignalId(id),
                instance,
                woke: self.woke,
            }),
            ("duplicate", Some(instance), _) => Ok(Delivery::Duplicate { instance }),
            ("inbox_full", Some(instance), _) => Ok(Delivery::InboxFull { instance }),
            ("no_target", _, _) => Ok(Delivery::NoTarget),
            // The function has another version, or was changed by hand.
            (word, _, _) => Err(unreadable("signal", format!("the word {word:?}").into())),
        }
    }
}

/// Returns the error for an answer that this version of the function cannot give.
pub(crate) fn unreadable(operation: &'static str, source: Source) -> Error {
    Error::Corrupt {
        operation,
        reason: format!("unexpected answer of the database: {source}"),
        source: Some(source),
    }
}

#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9", feature = "tokio-postgres"))]
pub(super) use checking::checked;

#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9", feature = "tokio-postgres"))]
mod checking {
    use outlast_core::{Error, Invalid, NewInstance, NewSignal};

    /// Values that are checked before they are sent.
    pub(crate) trait Checked: Sized {
        const OPERATION: &'static str;
        fn check(&self) -> Result<(), Invalid>;
    }

    impl Checked for NewInstance {
        const OPERATION: &'static str = "insert";
        fn check(&self) -> Result<(), Invalid> {
            NewInstance::check(self)
        }
    }

    impl Checked for NewSignal {
        const OPERATION: &'static str = "signal";
        fn check(&self) -> Result<(), Invalid> {
            NewSignal::check(self)
        }
    }

    /// Converts the caller's value and checks it.
    pub(crate) fn checked<T: Checked, G>(given: G) -> Result<T, Error>
    where
        G: TryInto<T>,
        G::Error: Into<Invalid>,
    {
        let made = given.try_into().map_err(Into::into);
        made.and_then(|made: T| made.check().map(|()| made))
            .map_err(|invalid| invalid.during(T::OPERATION))
    }
}
