//! The hankweave runtime.
