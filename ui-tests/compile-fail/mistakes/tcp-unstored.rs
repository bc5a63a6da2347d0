use hankweave_core::machine;

use std::net::TcpStream;

#[machine(Door, unstored)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[to(unlock => Closed, guess => Self)]
    Locked {
        stream: TcpStream,
        on_end: Option<Box<dyn Fn()>>,
    },
    #[terminal]
    Removed,
}
fn main() {}
