//! Nothing but a place for the tests beside it: a crate of their own, so that what they build again is small.
