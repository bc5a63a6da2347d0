use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(lock => Locked, remove => Removed)]
    Closed,
    #[to(guess => Self, unlock => Closed)]
    Locked {
        #[carry(start = 1, next = |tries| tries + 1u32)]
        tries: u8,
        #[carry(start = 1, try_next = |turns| turns + 1)]
        turns: u8,
        #[carry(start = 1, next = |keys| keys.checked_add(1))]
        keys: u8,
        #[carry(strat = 1)]
        codes: u8,
    },
    #[terminal]
    Removed,
}
fn main() {}
