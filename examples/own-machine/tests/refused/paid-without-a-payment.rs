//! What the bank calls the payment is missing.

#[path = "../../src/shop.rs"]
#[allow(dead_code)]
mod shop;

use shop::Order;
use shop::order::Pay;

fn main() {
    let _ = Order::new(7).pay(Pay {});
}
