use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed { pushes: u32 },
    #[terminal]
    Open {
        #[carry(pushs)]
        pushes: u32,
    },
}

/// The types are there, so all of this is right.
fn main() {
    let open: Door<door::Open> = Door::new(1).push();
    let record: DoorRecord = open.into_record();
    assert_eq!(record.status(), DoorStatus::Open);
    assert!(record.apply(DoorTransition::Push).is_err());
    assert_eq!(DOOR.edges.len(), 1);
}
