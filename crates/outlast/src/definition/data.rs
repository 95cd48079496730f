//! Values that the builder provides and that user code takes by type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A value that [`EngineBuilder::provide`](crate::engine::EngineBuilder::provide) was given, shared by
/// all steps.
///
/// A function with `#[job]` or `#[workflow]` takes it as a parameter. Other code calls
/// [`Context::data`](crate::Context::data) or [`Flow::data`](crate::Flow::data).
pub struct Data<T>(Arc<T>);

impl<T> Deref for Data<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for Data<T> {
    fn clone(&self) -> Data<T> {
        Data(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Data<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The error of code that takes a value which was not provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no value of type {type_name} is provided; call .provide(..) with one before .start()")]
pub struct MissingData {
    /// The type of the value.
    pub type_name: &'static str,
}

/// The types of the values that code takes with `data`.
///
/// [`EngineBuilder::start`](crate::engine::EngineBuilder::start) fails when one of them is not provided.
#[derive(Debug, Default)]
pub struct Needs(Vec<(TypeId, &'static str)>);

impl Needs {
    /// Adds the type `T`.
    pub fn data<T: Send + Sync + 'static>(&mut self) {
        self.0.push((TypeId::of::<T>(), type_name::<T>()));
    }
}

/// The provided values by their type.
#[derive(Clone, Default)]
pub(crate) struct Provided(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Provided {
    /// Adds a value; refuses a second one of its type, by its name.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) -> Result<(), &'static str> {
        let values = Arc::make_mut(&mut self.0);
        match values.insert(TypeId::of::<T>(), Arc::new(value)) {
            Some(_) => Err(type_name::<T>()),
            None => Ok(()),
        }
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Result<Data<T>, MissingData> {
        let found = self.0.get(&TypeId::of::<T>());
        let value = found.and_then(|value| value.clone().downcast().ok());
        value.map(Data).ok_or(MissingData {
            type_name: type_name::<T>(),
        })
    }

    /// Returns the first type of `needs` that is not provided.
    pub(crate) fn missing(&self, needs: &Needs) -> Option<MissingData> {
        let mut needs = needs.0.iter();
        let missing = needs.find(|(id, _)| !self.0.contains_key(id));
        missing.map(|(_, type_name)| MissingData { type_name })
    }
}

impl fmt::Debug for Provided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provided({} values)", self.0.len())
    }
}
