//! The schemas as they are given out. A change of a snapshot is a change of what editors and tools rely on.

use hankweave_core::codon::CODON;
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

/// No field of a codon is left without a type.
#[test]
fn every_field_of_every_status_has_a_type() {
    let schema = schema::state();
    let states = schema
        .pointer("/$defs/Run/properties/codons/items/oneOf")
        .unwrap()
        .as_array()
        .unwrap();
    assert_eq!(states.len(), CODON.states.len());
    for (state, known) in states.iter().zip(CODON.states) {
        let properties = state["properties"].as_object().unwrap();
        assert_eq!(properties.len(), known.fields.len() + 1, "{}", known.name);
        for (name, schema) in properties {
            assert_ne!(schema, &Value::Bool(true), "{} {name}", known.name);
        }
    }
}

/// A reference that leads nowhere makes the whole schema useless to its readers.
#[test]
fn every_reference_leads_somewhere() {
    for schema in [schema::hank(), schema::state(), schema::event()] {
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
