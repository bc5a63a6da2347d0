//! A crate of somebody else, with nothing but `hankweave-machine`.

use hankweave_machine::machine;

/// A ticket as it is stored.
#[machine(Ticket, tests, schema)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum TicketRecord {
    /// Nobody works on it.
    #[initial]
    #[to(take => InWork, reject => Closed)]
    Open,
    /// Somebody does.
    #[to(close => Closed, give_back => Open)]
    InWork {
        /// Who.
        owner: String,
    },
    /// Nobody will ever again.
    #[terminal]
    Closed,
}
