//! An empty library. Its tests are a crate of their own, so that they rebuild little.
