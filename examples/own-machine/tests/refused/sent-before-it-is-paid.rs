//! Order that was not paid.

#[path = "../../src/shop.rs"]
#[expect(dead_code, reason = "a program of one step")]
mod shop;

use shop::Order;
use shop::order::Send;

fn main() {
    let order = Order::new(7);
    let _ = order.send(Send {
        tracking: "parcel".to_owned(),
    });
}
