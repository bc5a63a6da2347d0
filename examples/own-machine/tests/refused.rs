//! Programs that must not compile, with the messages that their authors get.

#[test]
fn an_order_takes_no_step_that_its_state_does_not_have() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
