//! Another `core` than that of the language: whatever generated code would ask of it is not there.
