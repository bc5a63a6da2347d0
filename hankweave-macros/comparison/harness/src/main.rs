//! Walks one machine many times, for a tool that counts instructions: `comparison-harness WALK TIMES`.

use std::hint::black_box;
use std::process::ExitCode;

use comparison_harness::walks;
use data::Input;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, times] = &arguments[..] else {
        return usage();
    };
    let walk = walks().into_iter().find(|(known, _)| known == name);
    let (Some((_, walk)), Ok(times)) = (walk, times.parse::<u64>()) else {
        return usage();
    };
    let sum = (0..times).map(|n| black_box(walk)(Input::new(n))).sum::<u64>();
    println!("{sum}");
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    let names = walks().map(|(name, _)| name).join(" | ");
    eprintln!("comparison-harness {names} TIMES");
    ExitCode::from(2)
}
