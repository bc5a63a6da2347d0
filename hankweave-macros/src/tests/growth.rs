//! `#[non_exhaustive]` on the declaration keeps everything open that may grow with it.

use std::collections::BTreeSet;

use quote::quote;
use syn::{Attribute, Ident, Item};

use super::hostile::expansion;

fn note(attrs: &[Attribute], name: &Ident, found: &mut BTreeSet<String>) {
    if attrs.iter().any(|attr| attr.path().is_ident("non_exhaustive")) {
        found.insert(name.to_string());
    }
}

fn open_enums(items: &[Item], found: &mut BTreeSet<String>) {
    for item in items {
        match item {
            Item::Enum(item) => note(&item.attrs, &item.ident, found),
            Item::Struct(item) => note(&item.attrs, &item.ident, found),
            Item::Mod(module) => {
                let items = module.content.as_ref().map(|(_, items)| items.as_slice());
                open_enums(items.unwrap_or_default(), found);
            }
            _ => {}
        }
    }
}

#[test]
fn all_enums_of_a_machine_are_as_open_as_its_declaration() {
    let declaration = |attrs| {
        quote! {
            #attrs
            pub enum DoorRecord {
                #[initial]
                #[to(decide => Open | Shut)]
                Idle,
                #[terminal]
                Open,
                #[terminal]
                Shut,
            }
        }
    };
    let open = |arguments, attrs| {
        let mut found = BTreeSet::new();
        open_enums(&expansion(arguments, declaration(attrs)).items, &mut found);
        found.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        open(quote!(Door), quote!(#[non_exhaustive])),
        [
            "Decide",
            "DecideTo",
            "DoorPhase",
            "DoorRecord",
            "DoorStatus",
            "DoorTransition",
            "Typed"
        ]
    );
    assert_eq!(
        open(quote!(Door, types), quote!(#[non_exhaustive])),
        ["Decide", "DecideTo", "DoorPhase", "DoorRecord", "DoorStatus"]
    );
    assert!(open(quote!(Door), quote!()).is_empty());
}
