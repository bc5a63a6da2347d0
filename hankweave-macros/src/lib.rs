//! The typestate generator.
