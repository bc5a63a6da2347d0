//! The schemas as they are given out. A change of a snapshot is a change of what editors and tools rely on.

use std::collections::BTreeSet;

use hankweave_core::codon::{CODON, CodonExecution};
use hankweave_core::schema;
use serde_json::Value;

#[test]
fn the_schema_of_a_hank_is_the_known_one() {
    insta::assert_json_snapshot!(schema::hank());
}

#[test]
fn the_schema_of_the_state_is_the_known_one() {
    insta::assert_json_snapshot!(schema::state());
}

#[test]
fn the_schema_of_an_event_is_the_known_one() {
    insta::assert_json_snapshot!(schema::event());
}

#[test]
fn the_schema_of_a_command_is_the_known_one() {
    insta::assert_json_snapshot!(schema::command());
}

#[test]
fn the_schema_of_the_configuration_is_the_known_one() {
    insta::assert_json_snapshot!(schema::config());
}

/// No field of a codon is left without a type.
#[test]
fn every_field_of_every_status_has_a_type() {
    let schema = schema::state();
    let states = schema
        .pointer("/$defs/CodonExecution/oneOf")
        .unwrap()
        .as_array()
        .unwrap();
    assert_eq!(states.len(), CODON.states.len());
    for (state, known) in states.iter().zip(CODON.states) {
        let properties = state["properties"].as_object().unwrap();
        let fields = properties
            .iter()
            .filter(|(_, schema)| **schema != Value::Bool(false));
        assert_eq!(fields.count(), known.fields.len() + 1, "{}", known.name);
        for (name, schema) in properties {
            assert_ne!(schema, &Value::Bool(true), "{} {name}", known.name);
        }
    }
}

/// A reference that leads nowhere makes the whole schema useless to its readers.
#[test]
fn every_reference_leads_somewhere() {
    for schema in [
        schema::hank(),
        schema::state(),
        schema::event(),
        schema::command(),
    ] {
        let mut open = vec![&schema];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(object) => {
                    if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                        let pointer = reference.strip_prefix('#').unwrap();
                        assert!(schema.pointer(pointer).is_some(), "{reference}");
                    }
                    open.extend(object.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
    }
}

/// What a schema of a machine demands and refuses is what the reader demands and refuses.
#[test]
fn the_codons_of_a_real_document_obey_the_schema_of_their_status() {
    let schema = CodonExecution::schema();
    let document: Value = serde_json::from_str(include_str!("../fixtures/state/full-state.json")).unwrap();
    let mut statuses = BTreeSet::new();
    for run in document["runs"].as_array().unwrap() {
        for codon in run["codons"].as_array().unwrap() {
            let codon = codon.as_object().unwrap();
            let mut states = schema["oneOf"].as_array().unwrap().iter();
            let state = states
                .find(|state| state["properties"]["status"]["const"] == codon["status"])
                .unwrap();
            for required in state["required"].as_array().unwrap() {
                assert!(
                    codon.contains_key(required.as_str().unwrap()),
                    "{required} in {codon:?}"
                );
            }
            for name in codon.keys() {
                assert_ne!(
                    state["properties"][name],
                    Value::Bool(false),
                    "{name} in {codon:?}"
                );
            }
            statuses.insert(codon["status"].as_str().unwrap());
        }
    }
    assert!(statuses.len() > 3, "{statuses:?}");
    let preparing = &schema["oneOf"][0];
    assert_eq!(preparing["properties"]["finalCost"], Value::Bool(false));
}
