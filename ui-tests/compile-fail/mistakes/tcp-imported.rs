use hankweave_core::machine;

use std::net::TcpStream;
#[machine(Door)]
pub enum DoorRecord {
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed,
    #[to(close => Closed, remove => Removed)]
    Opened,
    #[to(unlock => Closed)]
    Locked { stream: TcpStream },
    #[terminal]
    Removed,
}
fn main() {
    let _d = Door::new().open().close();
}
