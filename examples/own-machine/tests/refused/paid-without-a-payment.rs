//! Payment without its name at the bank.

#[path = "../../src/shop.rs"]
#[expect(dead_code, reason = "a program of one step")]
mod shop;

use shop::Order;
use shop::order::Pay;

fn main() {
    let _ = Order::new(7).pay(Pay {});
}
