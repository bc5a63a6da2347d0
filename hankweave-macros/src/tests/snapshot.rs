//! What the macro writes, readable: the codon machine as plain Rust.

use std::path::Path;
use std::{env, fs};

use quote::quote;

use super::declarations::CODON;
use super::hostile::{expansion, parts};

/// The committed expansion. After a change of the macro or of the codon:
/// `UPDATE_EXPANSION=1 cargo test -p hankweave-macros`, and the difference is read before it is committed.
#[test]
fn the_codon_machine_expands_as_it_did() {
    let (_, item) = parts(CODON);
    // Generated tests and schemas are not what one reads an expansion for.
    let expanded = prettyplease::unparse(&expansion(quote!(Codon), item));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("expansions/codon.rs.txt");
    if env::var_os("UPDATE_EXPANSION").is_some() {
        fs::write(&path, &expanded).expect("the folder is there");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let difference = known.lines().zip(expanded.lines()).find(|(old, new)| old != new);
    assert!(
        known == expanded,
        "{} is not what the macro writes; first difference: {difference:?}",
        path.display()
    );
}
