use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(push => Elsewhere)]
    Closed,
    #[terminal]
    Open,
}

/// The types are there, so this is right.
fn main() {
    let record: DoorRecord = Door::new().into_record();
    assert_eq!(record.status(), DoorStatus::Closed);
}
