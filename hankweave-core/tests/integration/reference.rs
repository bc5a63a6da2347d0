//! The pages list every key of hank.json, hankweave.json and sentinels, and no other, with the defaults of the schemas.

use std::collections::BTreeMap;
use std::path::Path;

use hankweave_core::schema;
use serde_json::Value;

/// The pages with tables of keys, in `docs`.
const PAGES: [&str; 2] = ["hank.md", "sentinels.md"];

/// Statement of the schema or of a page about a key: whether it is required, and its default.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Given {
    Required,
    Default(Value),
    Nothing,
}

type Keys = BTreeMap<String, Given>;

/// The keys of an object, in all its forms; objects in it have keys of their own.
fn keys(schema: &Value) -> Keys {
    let mut keys = Keys::new();
    let required = schema["required"].as_array();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.is_some_and(|required| required.iter().any(|name| name == key));
        let given = match (is_required, property.get("default")) {
            (true, _) => Given::Required,
            (false, Some(default)) => Given::Default(default.clone()),
            (false, None) => Given::Nothing,
        };
        keys.insert(key.clone(), given);
    }
    for form in ["allOf", "anyOf", "oneOf"] {
        keys.extend(schema[form].as_array().into_iter().flatten().flat_map(self::keys));
    }
    keys
}

/// Every object of these files, by the name that a page gives it.
fn objects() -> BTreeMap<String, Keys> {
    let (hank, config) = (schema::hank(), schema::config());
    let mut objects = BTreeMap::new();
    for (name, schema) in [("Hank", &hank), ("Sentinel", &schema::sentinel())] {
        objects.insert(name.to_owned(), keys(schema));
        for (name, definition) in schema["$defs"].as_object().expect("there are several") {
            // The commands of `beforeCopy` are steps of rigs, which the page lists once.
            if name == "RigAction" {
                continue;
            }
            let keys = keys(definition);
            let known = objects.insert(name.clone(), keys.clone());
            assert!(
                known.is_none_or(|known| known == keys),
                "two objects are called {name}"
            );
        }
    }
    let tag = |name: &str, objects: &mut BTreeMap<String, Keys>, given| {
        let keys = objects.get_mut(name).expect("it is defined");
        keys.insert("type".to_owned(), given);
    };
    tag("CodonConfig", &mut objects, Given::Default("codon".into()));
    tag("LoopConfig", &mut objects, Given::Required);
    let prices = "/properties/prices/anyOf/1";
    let price = format!("{prices}/properties/models/additionalProperties");
    for (name, pointer) in [
        ("hankweave.json", String::new()),
        ("hankweave.json budget", "/properties/budget".to_owned()),
        ("prices", prices.to_owned()),
        ("longPrompt", format!("{price}/properties/longPrompt")),
        ("a price", price),
    ] {
        let schema = config.pointer(&pointer).unwrap_or_else(|| panic!("no {pointer}"));
        objects.insert(name.to_owned(), keys(schema));
    }
    objects.retain(|_, keys| !keys.is_empty());
    objects
}

/// The tables of these pages, by the name before them.
fn tables(pages: &str) -> BTreeMap<String, Keys> {
    let mut tables = BTreeMap::new();
    for part in pages.split("<!-- keys: ").skip(1) {
        let (name, rest) = part.split_once(" -->\n").expect("a name ends its line");
        let rows = rest.lines().take_while(|line| line.starts_with('|')).skip(2);
        let keys = rows.map(|row| {
            let cells: Vec<&str> = row.split(" | ").collect();
            let [key, _, default, meaning] = cells[..] else {
                panic!("four cells: {row}");
            };
            assert!(name == "longPrompt" || meaning.len() > 4, "{row}");
            let key = key.trim_start_matches("| `").trim_end_matches('`').to_owned();
            let given = match default {
                "required" => Given::Required,
                "-" => Given::Nothing,
                json => Given::Default(serde_json::from_str(json.trim_matches('`')).expect("JSON")),
            };
            (key, given)
        });
        let known = tables.insert(name.to_owned(), keys.collect());
        assert_eq!(known, None, "{name} stands twice");
    }
    tables
}

#[test]
fn the_pages_tell_every_key_and_no_other_with_its_default() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |page| std::fs::read_to_string(docs.join(page)).expect("the page is there");
    let (mut objects, tables) = (objects(), tables(&PAGES.map(read).concat()));
    for (name, told) in tables {
        let keys = objects
            .remove(&name)
            .unwrap_or_else(|| panic!("no object {name}"));
        assert_eq!(told, keys, "the table of {name}, and what the schema says");
    }
    assert!(objects.is_empty(), "objects without a table: {objects:#?}");
}

/// A schema is read in an editor, where the reader can follow no link of ours and open no document of ours.
#[test]
fn the_texts_of_schemas_cite_nothing_that_a_reader_cannot_open() {
    fn check(value: &Value) {
        match value {
            Value::Object(object) => {
                if let Some(text) = object.get("description").and_then(Value::as_str) {
                    for unreadable in [
                        "section ", "[`", "](", "::", "(STATE-", "(HANK-", "(RUN-", "(WIRE-",
                    ] {
                        assert!(!text.contains(unreadable), "{unreadable:?} in {text:?}");
                    }
                }
                object.values().for_each(check);
            }
            Value::Array(list) => list.iter().for_each(check),
            _ => {}
        }
    }
    for schema in [
        schema::hank(),
        schema::config(),
        schema::state(),
        schema::event(),
        schema::command(),
        schema::sentinel(),
    ] {
        check(&schema);
    }
}
