//! The `hankweave` binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// What one thread takes, another gives back: an agent's words go through five. The allocator of glibc has them wait for each other then.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hankweave_runtime::cli::main()
}
