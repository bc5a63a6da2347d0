//! `hankweave run`. [`run`] reads hank, settings and flags; [`start_run`] opens the execution directory, asks where to continue and starts the server;
//! [`drive`] shows the run until its end and prints the summary. The run itself is [`Hankweave::run`] of the library.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::codon::CodonExecution;
use hankweave_core::discovery::STATE_DIR;
use hankweave_core::document::HankweaveState;
use hankweave_core::hank::exclude::DATA;
use hankweave_core::hank::{MAX_WAIT_SECONDS, Problem, Setting};
use hankweave_core::id::CodonId;
use hankweave_core::thread;
use hankweave_runtime::data::{Data, changed_since_start};
use hankweave_runtime::driver::{DriverSet, ProcessHost};
use hankweave_runtime::hank_files::LoadedHank;
use hankweave_runtime::instance_lock::Exclusion;
use hankweave_runtime::preflight::all_mistakes;
use hankweave_runtime::world::World;
use hankweave_runtime::world::blocking::lasting_runtime;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_runtime::world::environment::{Environment, make_new_files_private};
use hankweave_runtime::world::process::MARKER_VARIABLE;
use hankweave_runtime::{
    Builder, CommandGuard, ExecutionDir, Hankweave, OpenExecutionError, OutputDirectory, Recovery, RunError,
    RunOptions, RunOutcome, RunResult, ServerOptions, Shutdown, StopCause,
};
#[cfg(feature = "otel")]
use tokio_util::task::AbortOnDropHandle;

use crate::approve::Answers;
use crate::args::{Global, RunArgs};
use crate::browser::Browser;
use crate::commands;
use crate::config;
use crate::detach::{self, Detachment};
use crate::directory::noted_question;
use crate::failures::{hank_with_mistakes, load_hank, open_failure, run_failure, serve_failure};
use crate::hints::{CommandEdit, HintCommands};
use crate::last_options;
use crate::logging;
use crate::notify::{NextCommands, Notification, Notifier};
#[cfg(feature = "otel")]
use crate::otel;
use crate::own_output;
use crate::owning_task::{OwningTask, check_run};
use crate::prices;
use crate::receipt::{self, ReportFollower};
use crate::rehearsal::RehearsalCopy;
use crate::server_log::ServerLog;
use crate::settings::Configuration;
use crate::signals::{self, TERMINAL_CLOSED, stopped};
use crate::status;
use crate::terminal::approval_prompt::KEYS;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::keyboard::Keyboard;
use crate::terminal::left_out::LeftOut;
use crate::terminal::prompt_line::PromptForm;
use crate::terminal::question::{self, RecoveryChoice, RecoveryQuestion};
use crate::terminal::report::{LiveContext, Reporter, SummaryContext, headline};
use crate::terminal::screen::{is_drawable, print_stderr};
use crate::terminal::shell::path_word;
use crate::terminal::show::EventPrinter;
use crate::terminal::stopping;
use crate::terminal::suspend::{self, SuspendSignals};
use crate::toggle::Toggle;
use crate::validate::{dry_run, replaced, stand_ins_of_run};

pub(crate) fn run(global: &Global, args: &RunArgs) -> Result<ExitCode, CliError> {
    // First, because it may be the reason for a later error.
    if let Some(kept) = last_options::kept(&args.kept).filter(|_| !global.json() && !global.quiet) {
        print_stderr(format!("note: {kept}\n"));
    }
    if args.dry_run {
        return dry_run(global, args);
    }
    if args.detach && !args.detached_process {
        return detach::start(global, args);
    }
    let detachment = args.detached_process.then(Detachment::start).transpose()?;
    let log = logging::install(global);
    make_new_files_private();
    let task = OwningTask::of(args.workspace());
    let mut loaded = load_hank(&args.hank.hank).map_err(|error| match OwningTask::of(args.workspace()) {
        Some(task) => task.looked_up().explain(error),
        None => with_moved_hank(args.workspace(), error),
    })?;
    let environment = Environment::of_process();
    let marker = environment.get(MARKER_VARIABLE);
    // Asks the registry only about a run by hand: a worker knows its task, and a rehearsal does nothing for it.
    let task = task.map(|task| match args.rehearse || task.is_run_by_worker(marker) {
        true => task,
        false => task.looked_up(),
    });
    if let Some(task) = task.as_ref().filter(|_| !args.rehearse) {
        check_run(task, marker)?;
    }
    if let Some(task) = task.as_ref().filter(|_| !global.json() && !global.quiet) {
        print_stderr(task.note());
    }
    let configuration = config::resolve_trusted(loaded.readable(), &config::flags(&args.settings)?)?;
    if let Some(hank) = loaded.readable_mut() {
        configuration.write_into(hank);
    }
    let world = config::world(&configuration)
        .adopting_orphans()
        .map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let options = options(global, args, &configuration)?;
    let workspace = args.hank.execution.as_ref().unwrap_or(&loaded.root);
    let copied_over = loaded.readable().filter(|_| !args.rehearse);
    let copied_over = copied_over.map_or_else(Vec::new, |hank| replaced(hank, &loaded.root, workspace));
    let rehearsal = || rehearsal_copy(args, &loaded, &options, &world);
    let mut copy = args.rehearse.then(rehearsal).transpose()?;
    let has_approvals = loaded
        .hank
        .iter()
        .any(|hank| hank.codons().any(|codon| codon.approval.is_some()));
    let ceiling = configuration.ceiling();
    let ceiling = match &loaded.hank {
        Some(hank) => ceiling.or_from_hank(hank),
        None => ceiling,
    };
    let hints = HintCommands::by(&args.invocation);
    // The last run of the record is read now, before this run becomes the last one.
    let mut notices: Vec<String> = Vec::new();
    if !args.new && !args.rehearse {
        notices.extend(last_options::other_agent(workspace, &hints));
        if args.hank.data.is_none() {
            notices.extend(last_options::other_data(workspace));
        }
    }
    notices.extend(last_options::replaced(
        &args.settings,
        loaded.hank.as_ref(),
        ceiling,
    ));
    let has_data = args.hank.data.is_some() || RealDisk.metadata(&workspace.join(DATA)).is_ok();
    if !has_data && loaded.names_data(&RealDisk) {
        notices.push(NO_DATA.to_owned());
    }
    // A rehearsal lists by itself which options its scripted agents leave out.
    if let Some(hank) = loaded.hank.as_ref().filter(|_| !args.rehearse) {
        notices.extend(stand_ins_of_run(hank, &options));
    }
    let live_context = LiveContext::of(ceiling, loaded.hank.as_ref());
    let builder = Hankweave::builder_in(world.clone(), loaded);
    let copied = copy.as_ref().map(RehearsalCopy::path);
    let builder = match copied.or(args.hank.execution.as_deref()) {
        Some(dir) => builder.execution_dir(dir),
        None => builder,
    };
    let builder = builder.options(options);
    let start = Start {
        global,
        args,
        configuration: &configuration,
        world: &world,
        hints,
        waits: !args.rehearse && !configuration.flag(Setting::Autostart),
        copy: copy.as_ref().map(RehearsalCopy::path),
        keeps_copy: Cell::new(false),
        copied_over,
        notices,
        guard: task
            .filter(|task| task.is_run_by_worker(marker))
            .map(OwningTask::guard),
        detachment: Cell::new(detachment.map(|detachment| detachment.asking(has_approvals))),
    };
    let runtime = lasting_runtime().map_err(|error| CliError::no_threads(&error))?;
    let result = runtime.block_on(start_run(&start, builder, &log, live_context));
    let keeps_copy = start.keeps_copy.get();
    if let Some(copy) = copy.as_mut().filter(|_| keeps_copy) {
        copy.keep();
    }
    // A thread that waits for a disk that hangs must not keep the process.
    runtime.shutdown_background();
    result
}

/// Adds to an error about a missing hank how to continue runs that are recorded in this directory but whose hank was moved.
fn with_moved_hank(execution: &Path, error: CliError) -> CliError {
    let hints = HintCommands::about(execution);
    let has_run = RealDisk.metadata(&execution.join(STATE_DIR)).is_ok();
    if !has_run || hints.knows_the_hank() {
        return error;
    }
    error.hint(format!(
        "runs are recorded here whose hank is not where it was: `{}` continues them, with its new path in the place of HANK",
        hints.run()
    ))
}

/// Copies the directory in which a run would work. Mistakes of the hank and the data are found first, while the messages still name the real paths.
fn rehearsal_copy(
    args: &RunArgs,
    loaded: &LoadedHank,
    options: &RunOptions,
    world: &World,
) -> Result<RehearsalCopy, CliError> {
    if loaded.problems.has_errors() {
        let drivers = DriverSet::built_in(&ProcessHost::new(world));
        let all = LoadedHank {
            problems: all_mistakes(loaded, options, &drivers, world),
            ..loaded.clone()
        };
        return Err(hank_with_mistakes(&all));
    }
    let workspace = args.hank.execution.as_ref().unwrap_or(&loaded.root);
    if let Some(data) = &args.hank.data {
        // Checked in the workspace itself: in the copy, nothing can be in the way of the data.
        let hints = HintCommands::by(&args.invocation);
        Data::find(&RealDisk, data, workspace)
            .map_err(|error| open_failure(&OpenExecutionError::Data(error), &hints))?;
    }
    RehearsalCopy::of(workspace)
}

/// Returns the options of the run, from flags and settings.
fn options(global: &Global, args: &RunArgs, configuration: &Configuration) -> Result<RunOptions, CliError> {
    let max_wait = configuration.number(Setting::MaxWaitSeconds);
    let mut options = RunOptions::default();
    options.invocation = Some(args.invocation.clone());
    options.fresh = args.new;
    options.rehearsal = args.rehearse;
    options.replan = args.replan;
    options.strict_state = args.strict_state;
    options.ignore_rig_failures = configuration.flag(Setting::IgnoreRigFailures);
    options.exclusion = match args.allow_no_lock {
        true => Exclusion::Waived,
        false => Exclusion::Required,
    };
    options.autostart = args.rehearse || configuration.flag(Setting::Autostart);
    // A detached run waits for `hankweave approve`.
    options.answers = args.detach || can_answer(global, args);
    options.data = args.hank.data.clone();
    options.file_contents = args.file_contents;
    options.output = output_directory(args, configuration)?;
    options.ceiling = configuration.ceiling();
    options.prices = prices::effective_prices(configuration)?;
    options.max_wait = Duration::from_secs(max_wait.unwrap_or(MAX_WAIT_SECONDS));
    options.max_disk = configuration.max_disk();
    options.recovery = args.recover.map(Recovery::from);
    Ok(options)
}

/// Returns the folder for results, which the settings name, and whether results replace existing files there, which a flag decides.
fn output_directory(
    args: &RunArgs,
    configuration: &Configuration,
) -> Result<Option<OutputDirectory>, CliError> {
    match configuration.text(Setting::OutputDirectory) {
        Some(path) => Ok(Some(OutputDirectory {
            path: path.into(),
            overwrite: args.overwrite_output,
        })),
        None if args.overwrite_output => Err(CliError::new(
            CliErrorKind::Usage,
            "--overwrite-output needs an output directory",
        )
        .hint("name it with --output DIR")),
        None => Ok(None),
    }
}

/// Arguments of a start, and what follows from them.
struct Start<'a> {
    global: &'a Global,
    args: &'a RunArgs,
    configuration: &'a Configuration,
    world: &'a World,
    hints: HintCommands,
    /// Each codon waits for a command (`--no-autostart`).
    waits: bool,
    /// Copy of the directory in which a rehearsal works.
    copy: Option<&'a Path>,
    /// Whether the copy is kept after the end. Set by [`drive`].
    keeps_copy: Cell<bool>,
    /// Files and folders that rigs copy over, each with its codon.
    copied_over: Vec<(CodonId, Problem)>,
    /// Notices about differences from the last run, a replaced limit of the hank, missing data, and options that scripted agents leave out.
    notices: Vec<String>,
    /// Refuses commands of clients to the run of a worker.
    guard: Option<Arc<dyn CommandGuard>>,
    /// Link of a detached run to the command that started it; `None` for other runs. [`Start::leave_terminal`] moves the output, then
    /// [`Start::attend_detached`] takes the link to report the run.
    detachment: Cell<Option<Detachment>>,
}

/// Opens the directory, asks where to continue, starts the server and drives the run to its end.
async fn start_run(
    start: &Start<'_>,
    builder: Builder,
    log: &ServerLog,
    live_context: LiveContext,
) -> Result<ExitCode, CliError> {
    let Start {
        global,
        args,
        configuration,
        world,
        hints,
        waits,
        copy,
        ..
    } = start;
    let report = choose_report(global, args, *waits, live_context);
    for warning in &configuration.warnings {
        report.notice(warning);
    }
    let shutdown = Shutdown::new();
    let mut watch = pin!(signals::watch(shutdown.clone(), args.hang_up()));
    // A stop that is requested while the directory is being opened takes effect afterwards; a second request takes effect at once.
    let opened = tokio::select! {
        biased;
        never = &mut watch => match never {},
        () = shutdown.force_token().cancelled() => return Ok(stopped(&shutdown)),
        opened = builder.open() => opened,
    };
    let mut hankweave = opened.map_err(|error| open_failure(&error, hints))?;
    log.open(&world.disk, &hankweave.directory().server_log());
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the directory is ours");
    if let Some(copy) = copy {
        report.notice(&format!("a rehearsal, in the copy {}", copy.display()));
    }
    if let Some(words) = own_output::notice(hankweave.directory()) {
        report.notice(&words);
    }
    for notice in start.notices.iter().filter(|_| !hankweave.is_finished()) {
        report.notice(notice);
    }
    for notice in hankweave.notices() {
        tracing::info!("{notice}");
        report.notice(notice);
    }
    // A plan made anew (`--replan`) decides itself where the run continues.
    let may_ask = !args.is_headless() && !global.json() && args.recover.is_none() && !args.replan;
    if may_ask && !ask_where_to_continue(&mut hankweave, world, watch.as_mut(), &shutdown, hints).await? {
        let execution = hankweave.directory().root().to_owned();
        let left = leave(hankweave, ExitCode::from(CliErrorKind::Failed.code())).await;
        // Opening the directory has recorded the crash, and no run follows that would write the report.
        receipt::write(&execution, None);
        return left;
    }
    if shutdown.cause().is_some() {
        return leave(hankweave, stopped(&shutdown)).await;
    }
    if !hankweave.is_finished() {
        start.report_copied_over(&hankweave.state_reader()(), &report);
    }
    // With nothing left to do, the page would close before a user could open it.
    if !hankweave.is_finished()
        && let Err(error) = hankweave
            .serve(start.server_options(hankweave.directory().root()))
            .await
    {
        leave(hankweave, ExitCode::SUCCESS).await?;
        return Err(serve_failure(&error, hints));
    }
    if let Err(error) = start.leave_terminal(&hankweave, &report).await {
        leave(hankweave, ExitCode::SUCCESS).await?;
        return Err(error);
    }
    drive(start, hankweave, report, watch, &shutdown).await
}

/// Runs to the end; meanwhile shows the run, sends notifications and obeys commands. Then prints the summary and returns the exit code.
async fn drive(
    start: &Start<'_>,
    hankweave: Hankweave,
    mut report: Reporter,
    mut watch: Pin<&mut impl Future<Output = Infallible>>,
    shutdown: &Shutdown,
) -> Result<ExitCode, CliError> {
    let hints = &start.hints;
    let mut browser = start.announce(&hankweave, &report);
    let commander = start.waits.then(|| hankweave.commander());
    let (directory, state) = (hankweave.directory().clone(), hankweave.state_reader());
    let execution = directory.root().to_owned();
    let follower = ReportFollower::start(start.world, &execution, hankweave.subscribe());
    let note = hankweave.note(TERMINAL_CLOSED.to_owned());
    let hang_ups = signals::note_hang_up(start.args.hang_up(), note);
    let notifier = start.notifier(&execution, &hankweave, &report);
    let replan = hankweave.can_be_replanned();
    let detached = start.attend_detached(&hankweave);
    let events = hankweave.subscribe();
    #[cfg(feature = "otel")]
    let exporting = otel::Exporter::new(start.world)
        .filter(|_| !start.args.rehearse)
        .map(|exporter| AbortOnDropHandle::new(tokio::spawn(exporter.export(hankweave.subscribe()))));
    report.start(&hankweave.state_reader()());
    let stopping = stopping::answer(
        report.is_quiet(),
        shutdown,
        hankweave.state_reader(),
        hankweave.grace(),
        report.stopper(),
    );
    let suspending = SuspendSignals::new();
    let is_live = matches!(report, Reporter::Live(_));
    let terminal = is_live.then(Keyboard::of_stdin).flatten();
    let form = if is_live {
        PromptForm::Foot
    } else {
        PromptForm::Lines
    };
    let can_answer = !start.waits && can_answer(start.global, start.args);
    let answers = can_answer.then(|| Answers::new(hankweave.commander(), form, &state()));
    answers
        .iter()
        .for_each(|answers| report.put_questions(answers.prompt()));
    let show = EventPrinter::start(events, report);
    let notifying = notify_of_waits(notifier.as_ref(), &hankweave, hints);
    let obey = commands::obey(commander, shutdown.clone(), hints);
    let toggle = Toggle::default();
    let mut toggling = pin!(toggle.answer(terminal.as_ref(), &execution, answers.as_ref()));
    let outcome = tokio::select! {
        outcome = hankweave.run(shutdown.clone()) => outcome,
        never = &mut watch => match never {},
        never = obey => match never {},
        never = note_opened(browser.as_mut()) => match never {},
        never = stopping => match never {},
        never = notifying => match never {},
        never = hang_ups => match never {},
        never = &mut toggling => match never {},
        never = detached => match never {},
        never = suspend::answer(suspending, terminal.as_ref()) => match never {},
    };
    // Prints the remaining events. They end when the state manager has stopped, which is part of the run. If the output is not read, a stop that the user
    // requests ends the wait for it.
    let shown = show.end(async {
        tokio::select! {
            never = watch => match never {},
            () = shutdown.requested() => {}
        }
    });
    let report = shown.await;
    let outcome = outcome.map_err(|error| start_failure(&error, hints, &execution, &state()))?;
    let ways = match &outcome.result {
        // Only the cleanup in `resume_command` helps.
        RunResult::Paused(pause) if pause.by == InterruptedBy::Disk => Vec::new(),
        RunResult::Stopped(_) | RunResult::Failed(_) | RunResult::Paused(_) => {
            status::ways_on(&execution, &state())
        }
        _ => Vec::new(),
    };
    let onward = ways
        .first()
        .filter(|_| matches!(outcome.result, RunResult::Paused(_)));
    let resume = onward.map_or_else(|| resume_command(&outcome, hints), |(command, _)| command.clone());
    let mut news = Notification::of(&outcome, headline(&outcome), &resume);
    start.keeps_copy.set(has_failed(&outcome));
    if let Some(report) = report {
        let log = failed_log(&state(), &directory);
        let summary = SummaryContext {
            replan: replan.then(|| hints.run_with(&[CommandEdit::Flag("replan")])),
            left_out: LeftOut::of(
                &execution,
                thread::head(&state()).map(|head| head.checkpoint_sha).as_ref(),
            ),
            // Without --data, the record of data is that of an earlier run.
            changed_data: (start.args.hank.data.as_ref())
                .and_then(|_| changed_since_start(&RealDisk, &directory.data_record())),
            rolled_back: outcome
                .run_id
                .as_ref()
                .and_then(|_| status::rolled_back_first(&state())),
            warnings: crate::state::record_warnings(&execution, &state()),
            rehearse: hints.rehearse(),
            ways,
            ..summary_context(&execution, hints, resume, log)
        };
        report.close(&outcome, &summary);
    }
    let facts = follower.end().await;
    let written = outcome
        .run_id
        .as_ref()
        .and_then(|_| receipt::write(&execution, facts));
    if let Some(news) = &mut news {
        news.report = written;
    }
    #[cfg(feature = "otel")]
    if let Some(exporting) = exporting {
        until_interrupted(exporting).await;
    }
    if let (Some(notifier), Some(news)) = (&notifier, &news) {
        until_interrupted(notifier.send(news)).await;
    }
    // If the user still has the whole screen open, waits until it is closed.
    tokio::select! {
        never = toggling => match never {},
        () = toggle.left() => {}
    }
    Ok(ExitCode::from(exit_code(&outcome)))
}

impl Start<'_> {
    /// Returns the options of the server that clients and the page of the run use.
    fn server_options(&self, execution: &Path) -> ServerOptions {
        let port = self.configuration.number(Setting::Port);
        let mut options = ServerOptions::default();
        options.address = self.args.listen;
        options.port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
        options.texts = Some(receipt::texts(execution));
        options.reached_as = self.args.page_url.as_deref().map(host_of);
        options.guard.clone_from(&self.guard);
        options
    }

    /// Reports the files and folders that rigs will copy over, for the codons that have not begun.
    fn report_copied_over(&self, state: &HankweaveState, report: &Reporter) {
        for (codon, problem) in &self.copied_over {
            if self.args.new || !status::has_begun(state, codon) {
                report.notice(&problem.message);
            }
        }
    }

    /// Moves the output of a detached run into its log. A run that has nothing to do keeps the terminal and says so there.
    async fn leave_terminal(&self, hankweave: &Hankweave, report: &Reporter) -> Result<(), CliError> {
        let Some(mut detachment) = self.detachment.take() else {
            return Ok(());
        };
        if hankweave.is_finished() {
            return Ok(());
        }
        if self.args.recover.is_none()
            && !self.args.replan
            && let Some(notice) = detach::unasked_question(hankweave).await
        {
            report.notice(&notice);
        }
        detachment.move_output(hankweave.directory())?;
        self.detachment.set(Some(detachment));
        Ok(())
    }

    /// Reports a detached run to the command that started it, and keeps its log short.
    fn attend_detached(&self, hankweave: &Hankweave) -> impl Future<Output = Infallible> + use<> {
        let (detachment, state) = (self.detachment.take(), hankweave.state_reader());
        let attended = detachment.map(|detachment| {
            let newest = move || state().runs.front().map(|run| run.run_id.clone());
            detachment.attend(hankweave.subscribe(), newest)
        });
        async move {
            if let Some(attended) = attended {
                attended.await;
            }
            std::future::pending().await
        }
    }

    /// Prints how to watch the run and how to continue it, and opens the page if the user wants that.
    fn announce(&self, hankweave: &Hankweave, report: &Reporter) -> Option<Browser> {
        // A rehearsal ends before a user could open its page.
        let is_watched = !self.args.rehearse || self.args.open;
        if let Some(address) = hankweave.page_address().filter(|_| is_watched) {
            let command = match self.copy {
                Some(copy) => self.hints.command_in(copy, "page"),
                None => self.hints.command("page"),
            };
            report.page(&address, &command);
        }
        if let Some(port) = hankweave.taken_port() {
            report.notice(&format!(
                "another program has port {port}, which this directory had before; a page that is open there follows this run only if it is that of `hankweave view`"
            ));
        }
        let address = hankweave.read_only_address().filter(|_| self.args.open);
        let browser = address.and_then(|address| open_page(self.world, hankweave, &address, report));
        if self.waits {
            let next = self.hints.command("next");
            report.notice(&format!(
                "nothing starts by itself: type next, or `{next}` in another terminal; help lists what else one can type"
            ));
        }
        if let Some(left) = hankweave.limit_ends_in() {
            report.limit_ends_in(left);
        }
        browser
    }

    /// Returns the notifier, if one is configured; reports what prevents it from sending.
    fn notifier(&self, execution: &Path, hankweave: &Hankweave, report: &Reporter) -> Option<Notifier> {
        // A rehearsal does no work, so there is nothing to notify of.
        if self.args.rehearse {
            return None;
        }
        let how = self.configuration.text(Setting::Notify)?;
        let mut notifier = Notifier::new(how, self.world, execution);
        if let (Some(url), Some(answers)) = (&self.args.page_url, hankweave.answers()) {
            notifier = notifier.with_page(url, answers);
        }
        if let Some(obstacle) = notifier.obstacle() {
            report.notice(&obstacle);
        }
        Some(notifier)
    }
}

/// Describes a run that could not start. If the limits of the hank are used up, the hint is the command that `status` offers.
fn start_failure(
    error: &RunError,
    hints: &HintCommands,
    execution: &Path,
    state: &HankweaveState,
) -> CliError {
    let failure = run_failure(error, hints);
    // With a limit on the command line, that limit is too low, and the hint of `run_failure` raises it.
    let is_limited = ["max-cost", "max-time"]
        .iter()
        .any(|name| hints.option(name).is_some());
    let ways = match error {
        RunError::NothingLeft { .. } if !is_limited => status::ways_on(execution, state),
        _ => Vec::new(),
    };
    match ways.into_iter().next() {
        Some((command, does)) => failure.hint(format!("`{command}` {does}")),
        None => failure,
    }
}

/// Returns the command that continues where the run has ended.
fn resume_command(outcome: &RunOutcome, hints: &HintCommands) -> String {
    // The next run needs more than the budget that this one has used up.
    let more = outcome.budget.map(|budget| budget.more()).unwrap_or_default();
    // After a rehearsal in the workspace of a task, a worker runs the task: `run` is refused there.
    if outcome.rehearsed.is_some()
        && let Some(command) = OwningTask::of(hints.execution()).and_then(|task| task.run_command())
    {
        return command;
    }
    match &outcome.result {
        RunResult::Paused(pause) if pause.by == InterruptedBy::Approval => {
            let task = OwningTask::of(hints.execution()).filter(OwningTask::is_answered_there);
            let onward = hints.run_with_more(more, None, &[]);
            task.map_or_else(
                || hints.approval(&pause.codon, &onward),
                |task| task.answer_command(),
            )
        }
        RunResult::Paused(pause) if pause.by == InterruptedBy::Disk => {
            format!("{} && {}", hints.command("cleanup --keep 1"), hints.run())
        }
        RunResult::Paused(pause) => hints.run_with_more(pause.more, pause.patience, &[]),
        _ => hints.run_with_more(more, None, &[]),
    }
}

/// Returns a path as it is typed in the working directory: relative if it lies inside.
fn from_here(path: PathBuf) -> PathBuf {
    let here = RealDisk.real_path(Path::new(".")).ok();
    let below = here.and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
    below.unwrap_or(path)
}

/// Returns what the summary of a run contains in any case.
fn summary_context<'a>(
    execution: &'a Path,
    hints: &HintCommands,
    resume: String,
    log: Option<PathBuf>,
) -> SummaryContext<'a> {
    let checkpoints = path_word(&from_here(execution.join(STATE_DIR).join("checkpoints")));
    SummaryContext {
        execution,
        checkpoints: format!("git --git-dir={checkpoints} log --all --oneline"),
        resume,
        ways: Vec::new(),
        replan: None,
        over: hints.run_with(&[CommandEdit::Flag("new")]),
        back: hints.command("history"),
        logs: hints.command("logs"),
        log,
        left_out: LeftOut::default(),
        changed_data: None,
        rolled_back: None,
        warnings: Vec::new(),
        rehearse: String::new(),
    }
}

/// Asks the user what to do about a codon that failed or crashed, and sets the answer for the run. Returns false if the user wants no run.
async fn ask_where_to_continue(
    hankweave: &mut Hankweave,
    world: &World,
    mut watch: Pin<&mut impl Future<Output = Infallible>>,
    shutdown: &Shutdown,
    hints: &HintCommands,
) -> Result<bool, CliError> {
    let trouble = hankweave.trouble().await;
    let (execution, state) = (hankweave.directory().root().to_owned(), hankweave.state_reader());
    let failure = |error: &RunError| start_failure(error, hints, &execution, &state());
    let Some(trouble) = trouble.map_err(|error| failure(&error))? else {
        return Ok(true);
    };
    if !question::can_ask() {
        return Ok(true);
    }
    let files = tokio::select! {
        biased;
        never = watch.as_mut() => match never {},
        () = shutdown.requested() => return Ok(true),
        files = hankweave.taken_back() => files,
    };
    // Without budget, no answer lets the run continue.
    if let Err(error @ RunError::NothingLeft { .. }) = &files {
        return Err(failure(error));
    }
    // Any other error is not reported here: the run reports it when it needs the files.
    let question = Arc::new(RecoveryQuestion::new(trouble, files.ok().flatten().as_ref()));
    let asked = Arc::clone(&question);
    let ask = world.blocking.run(move || asked.ask());
    noted_question(hankweave.note_question(true));
    let answer = tokio::select! {
        biased;
        never = question.repeat() => match never {},
        never = watch => match never {},
        () = shutdown.requested() => return Ok(true),
        answer = ask => answer,
    };
    noted_question(hankweave.note_question(false));
    match answer {
        RecoveryChoice::Recover(recovery) => hankweave.recover(recovery),
        // After a signal, the caller ends the program by that signal.
        RecoveryChoice::Nothing => return Ok(shutdown.cause().is_some()),
    }
    Ok(true)
}

/// Returns host and port of an address.
fn host_of(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// Waits for work after the end of the run. An interrupt cuts the wait short, because the user need not wait for this work.
async fn until_interrupted<T>(work: impl Future<Output = T>) {
    tokio::select! {
        _ = work => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Returns the file with everything that the agent of the newest codon has printed, if that codon has failed.
fn failed_log(state: &HankweaveState, directory: &ExecutionDir) -> Option<PathBuf> {
    let newest = state.runs.front()?.codons.last()?;
    match newest.as_ref() {
        CodonExecution::Failed(failed) => {
            let log = failed.agent_log_path.as_ref()?;
            Some(from_here(directory.state_dir().join(log)))
        }
        _ => None,
    }
}

/// Sends notifications of waits and of a record that is nearly full, if a notifier is configured.
fn notify_of_waits<'n>(
    notifier: Option<&'n Notifier>,
    hankweave: &Hankweave,
    hints: &HintCommands,
) -> impl Future<Output = Infallible> + use<'n> {
    let commands = NextCommands {
        next: hints.command("next"),
        approve: hints.command("approve"),
        cleanup: hints.command("cleanup --keep 1"),
    };
    let watched = notifier.map(|notifier| (notifier, hankweave.subscribe()));
    async move {
        match watched {
            Some((notifier, events)) => notifier.watch(events, &commands).await,
            None => std::future::pending().await,
        }
    }
}

/// Whether the user who started the run can be asked while it continues. Answers for a task are in its registry alone (TASK-123).
fn can_answer(global: &Global, args: &RunArgs) -> bool {
    let can_ask = std::io::stdin().is_terminal() && !args.is_headless() && !global.json() && !global.quiet;
    can_ask && !OwningTask::of(args.workspace()).is_some_and(|task| task.is_answered_there())
}

/// Closes the directory without a run; returns `code`.
async fn leave(hankweave: Hankweave, code: ExitCode) -> Result<ExitCode, CliError> {
    let closed = hankweave.close().await;
    closed.map_err(|error| CliError::from_error(CliErrorKind::Io, &*error))?;
    Ok(code)
}

/// Shows the page in a browser. A failure is only reported: the run continues without the page.
fn open_page(world: &World, hankweave: &Hankweave, address: &str, report: &Reporter) -> Option<Browser> {
    let browser = Browser::open(world, &hankweave.directory().state_dir(), address);
    browser
        .inspect_err(|error| report.notice(&format!("the page was not opened: {error}")))
        .ok()
}

/// Logs if the page did not open.
async fn note_opened(browser: Option<&mut Browser>) -> Infallible {
    if let Some(browser) = browser
        && !browser.opened().await
    {
        tracing::warn!("the program that opens the page has failed");
    }
    std::future::pending().await
}

/// Chooses the form of the report. Nothing is redrawn on a terminal where commands are typed: the drawing would cut the typed text in two.
fn choose_report(global: &Global, args: &RunArgs, waits: bool, known: LiveContext) -> Reporter {
    let answers = !waits && can_answer(global, args);
    let is_typed_on = waits && std::io::stdin().is_terminal();
    if global.json() {
        Reporter::json()
    } else if global.quiet {
        Reporter::Quiet
    } else if args.is_headless() || is_typed_on || !is_drawable() {
        Reporter::plain(answers.then(|| KEYS.to_owned()))
    } else {
        Reporter::live(known)
    }
}

/// Whether the run has failed, so that the user wants to see the files of a rehearsal.
fn has_failed(outcome: &RunOutcome) -> bool {
    matches!(
        outcome.result,
        RunResult::Failed(_) | RunResult::Unsaved(_) | RunResult::OutputFailed(..)
    )
}

/// Exit code of a run that is unfinished on purpose, because it was paused or stopped: the next run continues (CLI-1).
const PAUSED: u8 = 3;

/// Notice for a run without data whose prompts name the data folder.
const NO_DATA: &str = "a prompt names <%DATA_DIR%>, and this run has no data: `--data FOLDER` names it";

fn exit_code(outcome: &RunOutcome) -> u8 {
    match &outcome.result {
        RunResult::Completed | RunResult::NothingToDo => 0,
        RunResult::Failed(_) | RunResult::OutputFailed(..) => CliErrorKind::Failed.code(),
        RunResult::Unsaved(_) => CliErrorKind::Io.code(),
        RunResult::Paused(_) | RunResult::Stopped(StopCause::Sentinel) => PAUSED,
        // Every codon has ended, so nothing is left for the next run to continue.
        RunResult::Stopped(StopCause::Request | StopCause::ForcedRequest) if outcome.done => 0,
        RunResult::Stopped(cause) => cause.exit_code(),
    }
}
