use hankweave_core::machine;

#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[to(unlock => Closed, guess => Self)]
    Locked {
        #[carry(start = 1, next = |tries: u32| tries.pow(2))]
        tries: u32,
        #[carry(next = |mut codes: Vec<u8>| { codes.truncate(codes[0].into()); codes })]
        codes: Vec<u8>,
        #[carry(next = |last| <i32>::abs(last))]
        last: i32,
        #[carry(next = |turn: Option<u8>| turn.unwrap().checked_add(1))]
        turn: Option<u8>,
        #[carry(next = |digit| core::ops::Add::add(digit, 1))]
        digit: u8,
        #[carry(next = |pause| { fn twice(pause: u8) -> u8 { pause * 2 } twice(pause) })]
        pause: u8,
    },
    #[terminal]
    Removed,
}

#[machine(Lamp, types)]
pub enum LampRecord {
    #[initial]
    #[to(light => Self, remove => Removed)]
    Dark {
        #[carry(start = 1, try_next = |tries: u32| tries.checked_pow(2))]
        tries: u32,
    },
    #[terminal]
    Removed,
}
fn main() {}
