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
        #[carry(next = |share: u32| share.wrapping_div(share).overflowing_rem_euclid(share).0.saturating_div(share))]
        share: u32,
        #[carry(next = |radix: u32| 'f'.to_digit(radix).unwrap_or(u32::from('f'.is_digit(radix))))]
        radix: u32,
        #[carry(next = |size: u32| u32::from_str_radix("f", size).map_or(0, |_| char::from_digit(1, size).map_or(0, u32::from)))]
        size: u32,
        #[carry(next = |seconds: f64| std::time::Duration::from_secs_f64(seconds).as_secs_f64())]
        seconds: f64,
        #[carry(next = |long: u64| Duration::new(long, 2_000_000_000).as_secs())]
        long: u64,
        #[carry(next = |word: String| format!("{}", word.parse::<u8>().unwrap()))]
        word: String,
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
