//! `hankweave attach`

use std::io::{self, Write};
use std::process::ExitCode;

use hankweave_core::wire::Command;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use super::words::{self, Typed};
use super::{command_failure, connect_failure, ended_failure, is_interactive, runtime};
use crate::cli::args::{AttachArgs, Global};
use crate::cli::exit::Failure;
use crate::client::{Client, Commands, Endpoint, Message, Options, Target};
use crate::report::{Report, printable};

/// Shows what happens until the run ends, and with `--control` does what is typed.
pub(in crate::cli) fn attach(global: &Global, args: &AttachArgs) -> Result<ExitCode, Failure> {
    crate::cli::logging::install(global);
    let target = match &args.url {
        Some(url) => {
            let endpoint = Endpoint::parse(url).map_err(|error| connect_failure(&error.into()))?;
            Target::Endpoint(endpoint)
        }
        None => Target::Execution(args.execution.execution.clone()),
    };
    let mut options = match args.control {
        true => Options::commanding(),
        false => Options::watching(),
    };
    options.after = args.after;
    runtime()?.block_on(follow(global, target, options, args.control))
}

async fn follow(
    global: &Global,
    target: Target,
    options: Options,
    control: bool,
) -> Result<ExitCode, Failure> {
    let client = Client::connect(target, options).await;
    let mut client = client.map_err(|error| connect_failure(&error))?;
    let mut report = choose_report(global);
    report.notice(match control {
        true => "attached; `help` lists the commands, `detach` leaves the run to itself",
        false => "attached, for reading; Ctrl-C leaves the run to itself",
    });
    let commands = client.commands();
    let shown = tokio::select! {
        shown = show(&mut client, &mut report) => shown,
        () = obey(commands), if control => Ok(()),
    };
    report.clear();
    client.close().await;
    shown.map(|()| ExitCode::SUCCESS)
}

fn choose_report(global: &Global) -> Report {
    if global.json() {
        Report::Json
    } else if global.quiet {
        Report::Quiet
    } else if is_interactive() {
        Report::live()
    } else {
        Report::Plain
    }
}

/// Shows everything until the run ends or nobody reads.
async fn show(client: &mut Client, report: &mut Report) -> Result<(), Failure> {
    loop {
        let shown = match client.next().await {
            Ok(Message::Event(entry)) => report.event(&entry),
            Ok(Message::Unknown { seq, value, .. }) if seq.is_some() && matches!(report, Report::Json) => {
                writeln!(io::stdout().lock(), "{value}")
            }
            Ok(Message::Direct(_) | Message::Unknown { .. }) => Ok(()),
            Err(ended) => return ended_failure(&ended).map_or(Ok(()), Err),
        };
        if shown.is_err() {
            return Ok(());
        }
    }
}

/// Does what is typed until somebody detaches. The end of the input changes nothing.
async fn obey(commands: Commands) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match words::read(&line) {
            Typed::Nothing => {}
            Typed::Unknown => anstream::eprintln!("commands: {}", words::HELP),
            Typed::Detach => return,
            Typed::Command(command) => send(&commands, command).await,
            Typed::Careful(command) => {
                if is_meant(&mut lines).await {
                    send(&commands, command).await;
                }
            }
        }
    }
    std::future::pending().await
}

/// Asks once more before files change.
async fn is_meant(lines: &mut Lines<BufReader<Stdin>>) -> bool {
    anstream::eprintln!("the files of the project are taken back; type yes to go on");
    let answer = lines.next_line().await.ok().flatten();
    let meant = answer.is_some_and(|answer| answer.trim() == "yes");
    if !meant {
        anstream::eprintln!("nothing was changed");
    }
    meant
}

async fn send(commands: &Commands, command: Command) {
    match commands.send(command).await {
        Ok(answer) => anstream::eprintln!("{}", words::of_answer(&answer)),
        Err(error) => anstream::eprintln!("{}", printable(&command_failure(&error).to_string())),
    }
}
