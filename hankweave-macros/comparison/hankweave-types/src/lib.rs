//! The machine with `#[machine]`, without the feature `serde`: types, events, `apply` and the graph.

#[path = "../../hankweave/src/machine.rs"]
pub mod machine;
#[path = "../../hankweave/src/walk.rs"]
pub mod walk;
