use hankweave_core::run::{Completed, Fail, Run};

fn main() {}

fn step(run: Run<Completed>, fail: Fail) {
    let _ = run.fail(fail);
}
