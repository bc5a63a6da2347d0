//! A machine as a reader of the README and of the chapter on changes builds it: a shared field that changes, a retry loop, and documents of two
//! versions.

#![allow(unreachable_pub, reason = "a crate of its own would write it so")]

/// The crate as it was published.
mod v1 {
    use hankweave_machine::machine;

    #[machine(Delivery, tests)]
    #[serde(rename_all = "kebab-case")]
    pub enum DeliveryRecord {
        #[initial]
        #[to(send => Underway)]
        Packed { address: String },
        #[to(arrive => Delivered, lose => Lost)]
        #[keeps(address)]
        Underway,
        #[terminal]
        Delivered,
        #[terminal]
        Lost,
    }
}

/// The crate as it is now: a lost parcel is sent again, what it costs is known in every state, and delivered is called received.
mod v2 {
    use hankweave_machine::machine;

    use super::v1;

    #[machine(Delivery, tests)]
    #[serde(rename_all = "kebab-case")]
    pub enum DeliveryRecord {
        #[shared]
        Base {
            #[live(start = 0, add, record)]
            #[serde(default)]
            cents: u32,
        },
        #[initial]
        #[to(send => Underway)]
        Packed { address: String },
        #[to(arrive => Received, miss => Missed)]
        #[keeps(address)]
        Underway {
            #[carry(start = 1, next = |tries| tries + 1)]
            #[serde(default = "once")]
            tries: u8,
        },
        #[to(retry => Underway, give_up => Lost)]
        #[keeps(address, tries)]
        Missed,
        #[terminal]
        #[serde(alias = "delivered")]
        Received,
        #[terminal]
        Lost,
    }

    fn once() -> u8 {
        1
    }

    /// Reads a document of either version. A lost delivery was lost at its first attempt.
    pub(super) fn read(text: &str) -> serde_json::Result<DeliveryRecord> {
        serde_json::from_str(text).or_else(|error| match serde_json::from_str(text) {
            Ok(v1::DeliveryRecord::Lost(_)) => Ok(delivery::Lost { cents: 0 }.into()),
            _ => Err(error),
        })
    }
}

use v2::delivery::Typed;
use v2::{Delivery, DeliveryRecord, DeliveryStatus, DeliveryTransition, read};

#[test]
fn a_parcel_is_tried_again_and_its_costs_go_with_it() {
    let mut packed = Delivery::new("Main Street 1".into());
    let mut log = vec![packed.add_cents(499)];
    let start = Delivery::new("Main Street 1".into()).record();
    let (underway, event) = packed.step(v2::delivery::Send).into_parts();
    log.push(event);
    let (mut missed, event) = underway.step(v2::delivery::Miss).into_parts();
    log.extend([event, missed.add_cents(250)]);
    let (again, event) = missed.step(v2::delivery::Retry).into_parts();
    log.push(event);
    assert_eq!(
        (again.tries, again.cents, again.address.as_str()),
        (2, 749, "Main Street 1")
    );

    let stored = serde_json::to_string(&again).unwrap();
    assert_eq!(read(&stored).unwrap(), again.record());
    let log = serde_json::to_string(&log).unwrap();
    let log: Vec<DeliveryTransition> = serde_json::from_str(&log).unwrap();
    let replayed = log
        .into_iter()
        .try_fold(start, |record, event| record.apply(event))
        .unwrap();
    assert_eq!(replayed, again.into_record());
}

#[test]
fn documents_of_the_first_version_are_read_and_go_on() {
    let old = v1::Delivery::new("Main Street 1".into()).send();
    let Typed::Underway(underway) = read(&serde_json::to_string(&old).unwrap())
        .unwrap()
        .typed()
        .unwrap()
    else {
        unreachable!("it is underway")
    };
    assert_eq!(underway.miss().retry().tries, 2);
    let delivered = read(&serde_json::to_string(&old.arrive()).unwrap()).unwrap();
    assert_eq!(delivered.status(), DeliveryStatus::Received);
    assert_eq!(
        read(r#"{"status":"lost"}"#).unwrap().status(),
        DeliveryStatus::Lost
    );
    assert!(read(r#"{"status":"stolen"}"#).is_err());
}

#[test]
fn a_record_whose_tries_are_used_up_is_refused_and_kept() {
    let full = r#"{"status":"missed","cents":0,"address":"a","tries":255}"#;
    let record: DeliveryRecord = read(full).unwrap();
    let refused = record.clone().apply(DeliveryTransition::Retry).unwrap_err();
    assert_eq!(refused.into_parts(), (record, DeliveryTransition::Retry));
}
