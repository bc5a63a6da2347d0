//! The `hankweave` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    hankweave_runtime::cli::main()
}
