//! A machine outside of core that describes itself.

use hankweave_core::machine;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A type that knows nothing of schemas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PaymentId(String);

/// An order in a shop.
#[machine(Order, schema)]
#[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum StoredOrder {
    /// Not paid yet.
    #[initial]
    #[to(pay => Paid, cancel => Cancelled)]
    Open,

    /// Paid.
    #[terminal]
    Paid {
        /// The receipt of the bank.
        #[schema(String)]
        payment_id: PaymentId,
        /// What the customer wrote.
        note: Option<String>,
        #[fixed(true)]
        paid: bool,
    },

    /// Never mind.
    #[terminal]
    Cancelled {
        #[origin]
        cancelled_when: OrderPhase,
    },
}

#[test]
fn a_machine_tells_tools_what_its_stored_form_is() {
    let mut schema = StoredOrder::schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["description"], "An order in a shop.");
    assert_eq!(
        schema["oneOf"].take(),
        json!([
            {
                "type": "object", "description": "Not paid yet.",
                "properties": {
                    "state": {"const": "open"},
                    "cancelledWhen": false, "note": false, "paid": false, "paymentId": false,
                },
                "required": ["state"],
            },
            {
                "type": "object", "description": "Paid.",
                "properties": {
                    "state": {"const": "paid"},
                    "paymentId": {"type": "string", "description": "The receipt of the bank."},
                    "note": {"type": "string", "description": "What the customer wrote."},
                    "paid": {"const": true},
                    "cancelledWhen": false,
                },
                "required": ["state", "paymentId", "paid"],
            },
            {
                "type": "object", "description": "Never mind.",
                "properties": {
                    "state": {"const": "cancelled"},
                    "cancelledWhen": {"type": "string", "enum": ["open"]},
                    "note": false, "paid": false, "paymentId": false,
                },
                "required": ["state", "cancelledWhen"],
            },
        ])
    );
}

#[test]
fn events_and_names_have_schemas_of_their_own() {
    let events = OrderTransition::schema();
    assert_eq!(
        events["oneOf"][0]["properties"]["method"],
        json!({"const": "pay"})
    );
    assert_eq!(
        events["oneOf"][0]["properties"]["metadata"]["required"],
        json!(["paymentId"])
    );
    assert_eq!(events["oneOf"][1]["required"], json!(["method"]));
    let status = machine::schema::document::<OrderStatus>();
    assert_eq!(status["enum"], json!(["open", "paid", "cancelled"]));
}
