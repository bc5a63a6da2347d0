//! A machine grows without breaking those who match on it, and what is generated derives what it is asked to.

use std::collections::{BTreeSet, HashSet};

use hankweave_machine::machine;
use schemars::JsonSchema;

/// A ticket of some helpdesk.
#[machine(
    Ticket,
    tests,
    derive(
        events(Eq, Hash, PartialOrd, Ord),
        metadata(Eq, Hash, PartialOrd, Ord),
        statuses(JsonSchema),
        typed(Eq, Hash, PartialOrd, Ord)
    )
)]
#[derive(Eq, Hash, PartialOrd, Ord)]
pub enum TicketRecord {
    #[initial]
    #[to(decide => Accepted | Declined)]
    Open,
    #[terminal]
    Accepted { by: String },
    #[terminal]
    Declined,
}

#[test]
fn events_metadata_and_typed_values_can_be_members_of_sets() {
    let accept = || ticket::DecideAccepted { by: "ann".into() };
    let events: HashSet<TicketTransition> =
        [accept().into(), accept().into(), TicketTransition::DecideDeclined].into();
    assert_eq!(events.len(), 2);
    let keys: BTreeSet<_> = [accept(), accept()].into();
    assert_eq!(keys.len(), 1);
    let values: HashSet<_> = [Ticket::new(), Ticket::new()].into();
    assert_eq!(values.len(), 1);
}

#[test]
fn statuses_derive_what_other_crates_have() {
    let schema = schemars::schema_for!(TicketStatus);
    let names = schema.as_value()["oneOf"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| one["const"].as_str().unwrap()).collect();
    assert_eq!(names, ["Open", "Accepted", "Declined"]);
}
