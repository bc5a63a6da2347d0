//! A feature of `hankweave-machine` that another crate of the build asks for changes nothing for a machine that declares what it needs.
//!
//! These tests are built with its features `serde` and `schema`.

#![allow(unreachable_pub, reason = "an author elsewhere would write it so")]

use hankweave_machine::machine;

/// Neither stored nor described.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading(f64);

/// A probe that reads once.
#[machine(Probe, tests, unstored)]
pub enum ProbeRecord {
    #[initial]
    #[to(read => Done)]
    Waiting,
    #[terminal]
    Done {
        #[sample(Reading::default())]
        reading: Reading,
    },
}

#[test]
fn an_unstored_machine_demands_no_serde_and_has_its_events() {
    let event = ProbeTransition::from(probe::Read {
        reading: Reading(0.5),
    });
    let done = Probe::new().into_record().apply(event).unwrap();
    assert_eq!(done.status(), ProbeStatus::Done);
}

/// A field without a schema, in a crate whose own feature is off.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Undescribed(u8);

#[allow(unexpected_cfgs, reason = "a feature that is never on")]
mod optional {
    use super::{Undescribed, machine};

    #[machine(Gauge, schema = "never")]
    pub enum GaugeRecord {
        #[initial]
        #[terminal]
        Set { value: Undescribed },
    }
}

#[test]
fn a_schema_of_a_feature_that_is_off_demands_nothing() {
    let gauge = optional::Gauge::new(Undescribed(7)).into_record();
    assert_eq!(
        serde_json::to_string(&gauge).unwrap(),
        r#"{"status":"Set","value":7}"#
    );
}
