use hankweave_core::machine;

#[machine(Review)]
pub enum ReviewRecord {
    #[initial]
    #[to(decide => Accepted | Rejected)]
    Open,
    #[terminal]
    Accepted,
    #[terminal]
    Rejected,
}

fn main() {
    let accepted = Review::new().decide_accepted();
    accepted.decide(review::Decide::Rejected);
}
