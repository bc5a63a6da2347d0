use hankweave_core::machine;

#[machine(Call)]
pub enum CallRecord {
    #[initial]
    #[to(connect => Talking)]
    Ringing,
    #[to(hold => OnHold, hang_up => Ended)]
    Talking {
        #[carry_or_ask]
        partner: String,
    },
    #[to(connect => Talking)]
    #[keeps(partner)]
    OnHold,
    #[terminal]
    Ended,
}

fn main() {}
