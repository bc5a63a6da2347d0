//! Nobody has paid this order.

#[path = "../../src/shop.rs"]
#[allow(dead_code)]
mod shop;

use shop::Order;
use shop::order::Send;

fn main() {
    let order = Order::new(7);
    let _ = order.send(Send {
        tracking: "parcel".to_owned(),
    });
}
