//! `hankweave journal`

use std::convert::Infallible;
use std::io;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hankweave_runtime::ExecutionDir;
use hankweave_runtime::journal::{JournalTail, Passed, TailLine};
use hankweave_runtime::world::disk::RealDisk;

use crate::args::{Global, JournalArgs};
use crate::directory::existing_state_dir;
use crate::exit::{Failure, FailureKind};
use crate::screen::{JsonLines, tell};

/// How often a journal that is followed is looked at: as often as it is synced (D5).
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Prints the lines of the journal, what is hidden in their texts as escapes. It takes no lock and writes nothing, so a live run goes on undisturbed (CLI-12).
pub(crate) fn journal(global: &Global, args: &JournalArgs) -> Result<ExitCode, Failure> {
    let execution = &args.execution.execution;
    existing_state_dir(execution)?;
    let dir = ExecutionDir::new(execution.clone()).events();
    let mut printer = Printer {
        tail: JournalTail::new(Arc::new(RealDisk), dir, args.after),
        kinds: &args.kinds,
        out: JsonLines::default(),
        quiet: global.quiet,
    };
    let result = match args.follow {
        false => printer.once(),
        true => printer.follow().map(|never| match never {}),
    };
    match result {
        Ok(()) | Err(Stopped::NobodyReads) => Ok(ExitCode::SUCCESS),
        Err(Stopped::Failed(failure)) => Err(failure),
    }
}

struct Printer<'a> {
    tail: JournalTail,
    /// Empty for all.
    kinds: &'a [String],
    out: JsonLines,
    quiet: bool,
}

/// Why nothing more is printed.
enum Stopped {
    /// A reader that has gone away is not a failure (F19).
    NobodyReads,
    Failed(Failure),
}

impl Printer<'_> {
    fn once(&mut self) -> Result<(), Stopped> {
        let passed = self.print()?;
        self.tell_corrupt(passed);
        if passed.unfinished_bytes > 0 && !self.quiet {
            tell(
                "the last line is not whole and was left out; it is being written, or the next run counts it as damaged\n",
            );
        }
        Ok(())
    }

    fn follow(&mut self) -> Result<Infallible, Stopped> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let runtime =
            runtime.map_err(|error| Stopped::Failed(Failure::from_error(FailureKind::Io, &error)))?;
        runtime.block_on(async {
            let mut looks = tokio::time::interval(LOOK_EVERY);
            loop {
                looks.tick().await;
                let passed = self.print()?;
                self.tell_corrupt(passed);
            }
        })
    }

    /// Prints what is there and was not printed yet.
    fn print(&mut self) -> Result<Passed, Stopped> {
        let mut written = Ok(());
        let (kinds, out) = (self.kinds, &mut self.out);
        let passed = self.tail.read(|line: TailLine<'_>| {
            if kinds.is_empty() || kinds.iter().any(|kind| kind == line.kind) {
                written = out.line(line.bytes);
            }
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        match written.and_then(|()| self.out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Stopped::NobodyReads),
            Err(error) => return Err(Stopped::Failed(Failure::from_error(FailureKind::Io, &error))),
        }
        passed.map_err(|error| Stopped::Failed(Failure::from_error(FailureKind::Io, &error)))
    }

    fn tell_corrupt(&self, passed: Passed) {
        if passed.corrupt_lines > 0 && !self.quiet {
            tell(format!("{} damaged lines were left out\n", passed.corrupt_lines));
        }
    }
}
