//! Random sequences of verbs, sent to the model and to a store.
