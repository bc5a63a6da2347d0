use hankweave_core::machine;
use hankweave_core::machine::Extra;

#[machine(Lamp, unstored)]
pub enum LampRecord {
    #[shared]
    Base {
        #[extra]
        extra: Extra,
    },
    #[initial]
    #[terminal]
    Dark,
}

fn main() {}
