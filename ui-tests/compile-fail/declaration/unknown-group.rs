use hankweave_core::machine;

#[machine(Call)]
pub enum CallRecord {
    #[group]
    #[to(hang_up => Gone)]
    Alive,
    #[initial]
    #[within(Alife)]
    #[to(answer => Talking, hang_up => Ended)]
    Ringing,
    #[within(Alive)]
    Talking,
    #[terminal]
    Ended,
}

fn main() {}
