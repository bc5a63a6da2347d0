use hankweave_core::machine;

#[machine(Door)]
#[serde(rename_all = "lowercase")]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, break_in => OPENED)]
    Closed {
        #[serde(alias = "key")]
        code: u8,
        key: u8,
    },
    #[to(remove => Removed)]
    Opened,
    #[to(remove => Removed)]
    OPENED,
    #[serde(alias = "closed")]
    #[terminal]
    Removed,
}

fn main() {}
