//! An order of a shop, from the first item to the parcel, with the macro alone.
//!
//! ```text
//! cargo run -p own-machine
//! ```

pub mod shop;

use std::error::Error;

use shop::order::{Cancel, Paid, Pay, Send};
use shop::{ORDER, Order, OrderRecord, OrderTransition, PaymentId};

fn main() -> Result<(), Box<dyn Error>> {
    let stored = buy(7)?;
    println!("stored: {stored}");
    println!("sent:   {}", send(&stored)?);
    println!("as the bank sees it: {}", replay(&stored)?);
    println!("\n{}", ORDER.to_mermaid());
    Ok(())
}

/// A customer shops and pays; what the shop stores afterwards.
fn buy(order_id: u32) -> serde_json::Result<String> {
    let mut order = Order::new(order_id);
    order.add_total(1999);
    order.add_total(500);
    let payment_id = PaymentId("pay-4711".to_owned());
    let paid = order.pay(Pay { payment_id });
    serde_json::to_string(&paid.into_record())
}

/// Another process reads the order later. Only a paid one can be sent, and the types make sure of it.
fn send(stored: &str) -> Result<String, Box<dyn Error>> {
    let record: OrderRecord = serde_json::from_str(stored)?;
    let paid = Order::<Paid>::try_from(record)?;
    let tracking = format!("parcel for {}", paid.payment_id.0);
    let (sent, event) = paid.step(Send { tracking }).into_parts();
    // The step and the event that records it come together.
    println!("event:  {}", serde_json::to_string(&event)?);
    Ok(serde_json::to_string(&sent.into_record())?)
}

/// Where types cannot know the state, as in a log of events, illegal steps are refused and the value comes back.
fn replay(stored: &str) -> Result<String, Box<dyn Error>> {
    let record: OrderRecord = serde_json::from_str(stored)?;
    let cancelled = record.apply(OrderTransition::Cancel)?;
    let Err(refused) = cancelled.apply(Cancel.into()) else {
        return Err("an order was cancelled twice".into());
    };
    println!("twice:  {refused}");
    Ok(serde_json::to_string(&*refused.value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paid_order_is_sent_with_its_payment() {
        let sent = send(&buy(7).expect("an order can be stored")).expect("it is paid");
        assert_eq!(
            sent,
            r#"{"status":"sent","orderId":7,"total":2499,"paymentId":"pay-4711","tracking":"parcel for pay-4711"}"#
        );
    }

    #[test]
    fn an_order_that_is_not_paid_is_not_sent() {
        let open = Order::new(8).into_record();
        let open = serde_json::to_string(&open).expect("an order can be stored");
        let refused = send(&open).expect_err("it is open");
        assert_eq!(refused.to_string(), "expected status paid, found open");
    }

    #[test]
    fn a_cancelled_order_tells_how_far_it_had_come() {
        let cancelled = replay(&buy(9).expect("an order can be stored")).expect("it can be cancelled");
        assert_eq!(
            cancelled,
            r#"{"status":"cancelled","orderId":9,"cancelledDuring":"paid","paymentId":"pay-4711"}"#
        );
    }

    #[test]
    fn a_field_of_another_state_is_noticed_and_an_unknown_one_is_kept() {
        let mixed = r#"{"status":"open","orderId":1,"total":0,"tracking":"x"}"#;
        assert!(serde_json::from_str::<OrderRecord>(mixed).is_err());
        let newer = r#"{"status":"open","orderId":1,"colour":"red","total":0}"#;
        let record: OrderRecord = serde_json::from_str(newer).expect("unknown fields are kept");
        assert_eq!(record.extra().get("colour"), Some(&"red".into()));
    }
}
