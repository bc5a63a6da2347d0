use hankweave_core::codon::Completed;

fn main() {
    let _: Completed = serde_json::from_str("{}").unwrap();
}
