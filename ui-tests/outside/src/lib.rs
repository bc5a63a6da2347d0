//! A crate of another author, with nothing but `hankweave-machine`.

use hankweave_machine::machine;

/// A ticket as it is stored.
#[machine(Ticket, tests, schema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TicketRecord {
    /// No worker has it.
    #[initial]
    #[to(take => InWork, reject => Closed)]
    Open,
    /// A worker has it.
    #[to(close => Closed, give_back => Open)]
    InWork {
        /// Name of the worker.
        owner: String,
    },
    /// No worker takes it any more.
    #[terminal]
    Closed,
}
