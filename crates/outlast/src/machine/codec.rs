//! Conversion between a state enum and the two columns `step` and `state`.

use super::Machine;
use outlast_core::{Instance, Invalid, Json};
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The serde tag and content of every state enum.
const FIELDS: [&str; 2] = ["step", "state"];

/// Returns the step of a state, and its JSON.
pub(super) fn encode<T: Serialize>(state: &T) -> Result<(String, Json), Invalid> {
    #[derive(Deserialize)]
    struct StateColumns<'a> {
        #[serde(borrow)]
        step: Cow<'a, str>,
        #[serde(borrow)]
        state: Option<&'a RawValue>,
    }

    let text = serde_json::to_string(state)
        .map_err(|error| Invalid::new("state", format!("cannot be written as JSON: {error}")))?;
    let columns: StateColumns<'_> = serde_json::from_str(&text).map_err(|_| {
        Invalid::new("state", "is not written as a step and its state; put #[steps] on the enum, or derive Serialize with #[serde(tag = \"step\", content = \"state\")]")
    })?;
    // A step without fields has no content.
    let state = match columns.state {
        Some(raw) => Json::written(raw.to_owned()).map_err(|invalid| invalid.within("state"))?,
        None => Json::null(),
    };
    Ok((columns.step.into_owned(), state))
}

/// Reads the state of `step` from its JSON.
pub(super) fn decode<T: DeserializeOwned>(step: &str, state: &Json) -> Result<T, Invalid> {
    T::deserialize(Stored { step, state })
        .map_err(|error| Invalid::new("state", format!("of step {step} does not decode: {error}")))
}

/// Reads the state of a stored instance of `M`.
pub(crate) fn decode_state<M: Machine>(instance: &Instance) -> Result<M::State, Invalid> {
    decode(&instance.step, &instance.state)
}

/// The two columns as the map that an adjacently tagged enum reads.
///
/// The tag comes first, so that serde reads the state's text straight into its variant.
struct Stored<'a> {
    step: &'a str,
    state: &'a Json,
}

impl<'de> de::Deserializer<'de> for Stored<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_map(ColumnAccess {
            stored: self,
            read: 0,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct ColumnAccess<'a> {
    stored: Stored<'a>,
    read: usize,
}

impl<'de> MapAccess<'de> for ColumnAccess<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        let Some(field) = FIELDS.get(self.read) else {
            return Ok(None);
        };
        self.read += 1;
        seed.deserialize(StrDeserializer::new(field)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        if self.read == 1 {
            return seed.deserialize(StrDeserializer::new(self.stored.step));
        }
        let mut state = serde_json::Deserializer::from_str(self.stored.state.as_str());
        seed.deserialize(&mut state)
    }
}

/// Lists the steps of a state enum, in the order of declaration.
///
/// serde provides the list: it names all variants when it refuses an unknown one.
pub(super) fn steps<T: DeserializeOwned>() -> Result<&'static [&'static str], Invalid> {
    match T::deserialize(Probe) {
        Err(ProbeAnswer::Steps(steps)) if !steps.is_empty() => Ok(steps),
        Err(ProbeAnswer::Steps(_)) => {
            Err(not_a_machine("has no steps; give it a variant for each"))
        }
        Err(ProbeAnswer::Shape(shape)) => Err(not_a_machine(&shape)),
        Ok(_) => Err(not_a_machine(
            "accepts any step name, so the engine cannot list its steps",
        )),
    }
}

fn not_a_machine(what: &str) -> Invalid {
    Invalid::new(
        "its State",
        format!(
            "{what}; it must be an enum with #[steps], or with #[serde(tag = \"step\", content = \"state\")], one variant for each step"
        ),
    )
}

/// A deserializer that offers an unknown step, and records what the type asks for.
struct Probe;

/// What the probe found, returned as an error.
#[derive(Debug)]
enum ProbeAnswer {
    Steps(&'static [&'static str]),
    Shape(String),
}

impl ProbeAnswer {
    fn shape(what: &str) -> ProbeAnswer {
        ProbeAnswer::Shape(what.to_owned())
    }
}

impl std::error::Error for ProbeAnswer {}

impl fmt::Display for ProbeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeAnswer::Steps(steps) => write!(f, "{steps:?}"),
            ProbeAnswer::Shape(shape) => f.write_str(shape),
        }
    }
}

impl de::Error for ProbeAnswer {
    fn custom<T: fmt::Display>(message: T) -> ProbeAnswer {
        ProbeAnswer::Shape(format!("cannot be read ({message})"))
    }

    fn unknown_variant(_variant: &str, expected: &'static [&'static str]) -> ProbeAnswer {
        ProbeAnswer::Steps(expected)
    }
}

impl<'de> de::Deserializer<'de> for Probe {
    type Error = ProbeAnswer;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeAnswer> {
        if fields == FIELDS {
            return visitor.visit_map(UnknownStepAccess { read: false });
        }
        Err(ProbeAnswer::Shape(match fields {
            [tag, content] => {
                format!("is `{name}`, tagged with {tag:?} and {content:?}, or a plain struct")
            }
            _ => format!("is `{name}`, a plain struct"),
        }))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _variants: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, ProbeAnswer> {
        Err(ProbeAnswer::Shape(format!(
            "is `{name}`, an enum without tags"
        )))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, ProbeAnswer> {
        Err(ProbeAnswer::shape(
            "is untagged, or tagged without a separate content",
        ))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct UnknownStepAccess {
    read: bool,
}

impl<'de> MapAccess<'de> for UnknownStepAccess {
    type Error = ProbeAnswer;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ProbeAnswer> {
        if std::mem::replace(&mut self.read, true) {
            return Err(ProbeAnswer::shape("takes a step without looking at it"));
        }
        seed.deserialize(StrDeserializer::new(FIELDS[0])).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ProbeAnswer> {
        // No step can have this name: control characters are refused in every name.
        seed.deserialize(StrDeserializer::new("\u{0}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "step", content = "state", rename_all = "snake_case")]
    enum Order {
        Start { number: u64, note: String },
        InTransit(u8, u8),
        Weighed(f64),
        Shipped,
    }

    #[test]
    fn every_kind_of_variant_reads_back_from_its_two_columns() {
        let orders = [
            (
                Order::Start {
                    number: 1,
                    note: "é\"".into(),
                },
                "start",
                r#"{"number":1,"note":"é\""}"#,
            ),
            (Order::InTransit(1, 2), "in_transit", "[1,2]"),
            (Order::Weighed(0.5), "weighed", "0.5"),
            (Order::Shipped, "shipped", "null"),
        ];
        for (order, step, state) in orders {
            let encoded = encode(&order).unwrap();
            assert_eq!((encoded.0.as_str(), encoded.1.as_str()), (step, state));
            assert_eq!(decode::<Order>(&encoded.0, &encoded.1).unwrap(), order);
        }
    }

    #[test]
    fn the_steps_of_an_enum_are_read_in_the_order_they_are_declared() {
        assert_eq!(
            steps::<Order>().unwrap(),
            ["start", "in_transit", "weighed", "shipped"]
        );
    }

    #[test]
    fn the_error_of_a_state_that_does_not_decode_names_its_step() {
        let error =
            decode::<Order>("start", &Json::parse(r#"{"number":"x"}"#).unwrap()).unwrap_err();
        assert!(error.to_string().contains("step start"), "{error}");
    }

    #[test]
    fn a_type_that_is_not_adjacently_tagged_is_refused_with_the_remedy() {
        #[derive(Debug, Deserialize)]
        #[allow(dead_code)]
        enum External {
            A,
        }
        #[derive(Debug, Deserialize)]
        #[serde(tag = "step")]
        #[allow(dead_code)]
        enum Internal {
            A { b: u8 },
        }
        #[derive(Debug, Deserialize)]
        #[serde(untagged)]
        #[allow(dead_code)]
        enum Untagged {
            A { b: u8 },
        }
        #[derive(Debug, Deserialize)]
        #[serde(tag = "kind", content = "data")]
        #[allow(dead_code)]
        enum OtherTags {
            A { b: u8 },
        }
        #[derive(Debug, Deserialize)]
        #[allow(dead_code)]
        struct PlainStruct {
            step: String,
            state: u8,
        }

        let refusals = [
            steps::<External>(),
            steps::<Internal>(),
            steps::<Untagged>(),
            steps::<OtherTags>(),
            steps::<PlainStruct>(),
            steps::<String>(),
        ];
        for refusal in refusals {
            let message = refusal.unwrap_err().to_string();
            assert!(
                message.contains(r#"#[serde(tag = "step", content = "state")]"#),
                "{message}"
            );
        }
    }
}
