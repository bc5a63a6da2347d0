use hankweave_core::machine;

#[machine(Loan)]
pub enum LoanRecord {
    #[initial]
    #[to(extend { due } => OnLoan, bring_back { due_on } => Returned)]
    OnLoan { due_on: String },
    #[terminal]
    Returned,
}

fn main() {}
