use hankweave_core::codon::{Codon, Running};

fn main() {
    let _: Codon<Running> = serde_json::from_str("{}").unwrap();
}
