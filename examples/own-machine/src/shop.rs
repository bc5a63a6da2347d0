//! The machine: what can happen to an order, and what each step demands.

use hankweave_machine::{Extra, Sample, machine};
use serde::{Deserialize, Serialize};

/// An order as the shop stores it.
#[machine(Order, tests)]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum OrderRecord {
    /// What every state knows.
    #[shared]
    Base {
        /// The number on the receipt.
        order_id: u32,
        /// What other versions of the shop stored.
        #[extra]
        extra: Extra,
    },

    /// The customer still chooses.
    #[initial("shop()")]
    #[to(pay => Paid, cancel => Cancelled)]
    Open {
        /// The sum so far, in cents.
        #[live(start = 0, add)]
        total: u64,
    },

    /// The money is there.
    #[to(send => Sent, cancel => Cancelled)]
    #[keeps(total)]
    Paid {
        /// The payment, as the bank calls it. There is no paid order without one.
        payment_id: PaymentId,
    },

    /// The parcel is on its way.
    #[terminal]
    #[keeps(total, payment_id)]
    Sent {
        /// How the customer follows it.
        tracking: String,
    },

    /// It came to nothing.
    #[terminal]
    Cancelled {
        /// How far it had come.
        #[origin]
        cancelled_during: OrderPhase,
        /// The payment to refund, if there was one.
        #[carry]
        payment_id: Option<PaymentId>,
    },
}

/// What the bank calls a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PaymentId(pub String);

impl Sample for PaymentId {
    fn sample(n: u32) -> Self {
        Self(format!("pay-{n}"))
    }
}
