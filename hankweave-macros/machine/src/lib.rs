//! State machines that the compiler checks.
//!
//! One declaration, an enum as it shall stand in a stored document, is given to [`machine`](macro@crate::machine). What comes
//! out is a typed value whose illegal steps do not compile, the stored enum whose illegal steps are refused at run
//! time, and the graph of the machine as data. This module holds what all machines have in common.
//!
//! # A stored order with a payment
//!
//! Each variant is a state and its fields are what a value holds there. The mark of a field tells where its value comes from when
//! the state is entered; what has no mark is asked of the caller.
//!
//! ```
//! use hankweave_core::machine;
//!
//! #[machine(Order)]
//! #[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
//! pub enum OrderRecord {
//!     #[shared] // no state: these fields are in every one
//!     Base { order_id: u32 },
//!
//!     #[initial]
//!     #[to(pay => Paid, cancel => Cancelled)]
//!     Open {
//!         #[live(start = 0, add)] // 0 at first, then changed by `set_total` and `add_total`
//!         total: u64,
//!     },
//!
//!     #[to(send => Sent, cancel => Cancelled)]
//!     #[keeps(total)] // from the open order
//!     Paid { payment_id: String }, // from the caller of `pay`
//!
//!     #[terminal]
//!     #[keeps(total, payment_id)]
//!     Sent { tracking: String },
//!
//!     #[terminal]
//!     Cancelled {
//!         #[origin] // the state that was left
//!         cancelled_during: OrderPhase,
//!         #[carry] // from the paid order, `None` when there was no payment
//!         payment_id: Option<String>,
//!     },
//! }
//!
//! use order::{Paid, Pay, Send};
//!
//! let mut open = Order::new(7);
//! open.add_total(2499);
//! let paid = open.pay(Pay { payment_id: "pay-4711".into() });
//! assert_eq!(paid.payment_id, "pay-4711"); // an open order has no such field
//!
//! // Stored, and read again by somebody who can only send what was paid.
//! let stored = serde_json::to_string(&paid.into_record())?;
//! assert_eq!(stored, r#"{"status":"paid","orderId":7,"total":2499,"paymentId":"pay-4711"}"#);
//! let record: OrderRecord = serde_json::from_str(&stored)?;
//! let paid = Order::<Paid>::try_from(record.clone())?;
//!
//! // A step through `step` brings the event that records it ..
//! let sent = paid.step(Send { tracking: "LX1".into() });
//! assert_eq!(serde_json::to_string(&sent.event)?, r#"{"method":"send","metadata":{"tracking":"LX1"}}"#);
//!
//! // .. and the event does the same to the stored form. A wrong one is refused, and the value comes back.
//! let replayed = record.apply(sent.event)?;
//! assert_eq!(replayed, sent.order.into_record());
//! let refused = replayed.apply(OrderTransition::Cancel).unwrap_err();
//! assert_eq!(refused.to_string(), "invalid transition from sent to cancelled (sent is terminal)");
//!
//! // The graph is data, known while compiling.
//! const { assert!(ORDER.edges.len() == 4) };
//! assert!(ORDER.to_mermaid().contains("Open --> Paid : pay"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Tests for nothing
//!
//! `#[machine(Order, tests)]` also writes tests into your crate: types, table and `apply` agree on every pair of states, every
//! stored value survives JSON, and every walk through the graph is the same by types and by events, until each edge was walked.
//! The values are made up by [`Sample`], which types of your own implement in three lines. [`testing::Coverage`] records the edges that
//! tests of your own walk.
//!
//! # Features
//!
//! Without default features this module needs `core` and `alloc` alone; `serde` adds the stored form and `schema` the JSON
//! Schemas of machines that ask for them with `#[machine(Order, schema)]`.

mod diagram;
#[cfg(feature = "serde")]
mod extra;
mod graph;
mod name;
mod refusal;
mod sample;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "serde")]
pub mod stored;
pub mod testing;
mod walks;

#[cfg(feature = "serde")]
pub use extra::Extra;
pub use graph::{Edge, Field, Machine, State};
pub use name::{Name, UnknownName};
pub use refusal::{InvalidTransition, Refused, Violation};
pub use sample::Sample;
pub use walks::{Walk, Walks};
