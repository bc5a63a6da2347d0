//! The `hankweave` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(command) if command == "scripted-agent" => hankweave_runtime::driver::play(arguments),
        _ => ExitCode::SUCCESS,
    }
}
