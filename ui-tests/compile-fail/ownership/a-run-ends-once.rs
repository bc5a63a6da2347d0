use hankweave_core::run::{Complete, Fail, Run, Running};

fn main() {}

fn end(run: Run<Running>, complete: Complete, fail: Fail) {
    let _completed = run.complete(complete);
    let _failed = run.fail(fail);
}
