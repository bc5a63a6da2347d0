//! What the declaration gave.

use outside::ticket::{InWork, Take};
use outside::{TICKET, Ticket, TicketRecord, TicketTransition};

#[test]
fn types_events_graph_and_schemas_are_all_there() {
    let (taken, event) = Ticket::new().step(Take { owner: "ann".into() }).into_parts();
    assert_eq!(taken.owner, "ann");
    assert_eq!(event, TicketTransition::Take(Take { owner: "ann".into() }));
    let record = Ticket::new().into_record().apply(event).unwrap();
    let typed = Ticket::<InWork>::try_from(record.clone()).unwrap();
    assert_eq!(typed.give_back().into_record(), Ticket::new().into_record());
    assert!(record.apply(TicketTransition::Reject).is_err());

    assert_eq!(TICKET.edges.len(), 4);
    assert!(TICKET.to_dot().starts_with("digraph Ticket"));
    assert!(TicketRecord::schema().to_string().contains("in-work"));
    assert!(TicketTransition::schema().to_string().contains("give_back"));
}
