use hankweave_core::machine;

#[machine(Door)]
#[serde(tag = "state")]
pub enum DoorRecord {
    #[initial]
    #[to(push => Open)]
    Closed,
    #[terminal]
    Open {
        #[serde(rename = "state")]
        condition: String,
    },
}

fn main() {}
