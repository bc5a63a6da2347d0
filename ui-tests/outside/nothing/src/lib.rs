//! Another `core` than that of the language: it lacks everything that generated code would need from it.
