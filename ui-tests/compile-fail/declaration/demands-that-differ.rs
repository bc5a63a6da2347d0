use hankweave_core::machine;

// A step has one event and one struct, so it has equal demands wherever it leads.
#[machine(Door)]
pub enum DoorRecord {
    #[group]
    #[to(check => Self, shake { force } => Self)]
    Hung { force: u8 },
    #[initial]
    #[within(Hung)]
    #[to(push => Ajar, pull => Open, settle => Ajar | Open)]
    Closed,
    #[within(Hung)]
    #[to(push => Open, pull => Closed, settle_open => Gone)]
    Ajar { by: String },
    #[to(push => Gone)]
    #[to(shake => Open)]
    #[to(swing => Self | Gone)]
    Open { by: u64, force: u8 },
    #[terminal]
    Gone,
}

fn main() {}
