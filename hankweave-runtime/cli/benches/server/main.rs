//! Cost of the socket, compared with bare loops over sockets that do nothing else.
//!
//! Events take the full path: an agent says them, the run records and publishes them, and the server sends them to clients on the loopback. The
//! bare loops send texts of this form through tokio-tungstenite, or these bytes through a socket, to equal readers. Both take turns, since the speed
//! of a machine changes; a ratio compares two turns of one round.
//!
//! `cargo bench -p hankweave-cli --bench server`

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

mod bare;
mod live;
mod reader;
mod strangers;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};

use self::bare::Bare;
use self::live::Live;
use self::reader::Reader;

const ROUNDS: usize = 7;

/// Number of clients, and of the events that are sent to them at once: one, or a burst that is smaller than the queue of a client.
const MANY: usize = 100;
const BURSTS: [usize; 2] = [1, 500];
const EVENTS: usize = 1_000;

/// Events that come one a millisecond.
const SOME: usize = 20;
const PACED: usize = 2_000;

const HISTORY: u64 = 100_000;

/// Codons of the runs among strangers.
const CODONS: [usize; 2] = [100, 400];

/// Servers and clients have threads of their own, as programs of their own would.
static SERVERS: LazyLock<Runtime> = LazyLock::new(|| runtime(2));
static CLIENTS: LazyLock<Runtime> = LazyLock::new(|| runtime(1));
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn runtime(threads: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(threads).enable_all().build();
    runtime.expect("threads can be started")
}

fn main() {
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    println!("medians of {ROUNDS} rounds (least to most)");
    let parts: [(&str, fn()); 4] = [
        ("many", many),
        ("paced", paced),
        ("history", history),
        ("company", company),
    ];
    let named = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !parts.iter().any(|(name, _)| named(name));
    for (_, part) in parts.iter().filter(|(name, _)| all || named(name)) {
        part();
    }
}

/// Events as fast as they go to a hundred clients.
fn many() {
    let (mut ours, mut bare) = (Side::new(Live::start(), MANY), Side::new(Bare::default(), MANY));
    for burst in BURSTS {
        compare(
            [&format!(
                "events a second to each of {MANY} clients, {burst} at a time"
            )],
            ("ours / bare", |ours, bare| ours / bare),
            || [ours.rate(burst)],
            || [bare.rate(burst)],
        );
    }
    ours.source.end();
}

/// How long an event takes to its clients when there is time for it.
fn paced() {
    let (mut ours, mut bare) = (Side::new(Live::start(), SOME), Side::new(Bare::default(), SOME));
    let what = |share| {
        format!("milliseconds from the agent's word to {SOME} clients, 1,000 events a second, {share}")
    };
    compare(
        [&what("p50"), &what("p99")],
        ("ours - bare", |ours, bare| ours - bare),
        || quantiles(ours.turn(PACED, Duration::from_millis(1))),
        || quantiles(bare.turn(PACED, Duration::from_millis(1))),
    );
    ours.source.end();
}

/// Everything that happened, to one client.
fn history() {
    let mut live = Live::start();
    SERVERS.block_on(async {
        for number in 1..=HISTORY {
            live.publish(text(number)).await;
        }
    });
    for way in ["afterSeq", "history.sync"] {
        // A reader that has the last event or batch has everything.
        let last = format!("{HISTORY:012}~\"}}}}");
        let is_end =
            |content: &[u8]| content.ends_with(last.as_bytes()) || content.ends_with(b"\"hasMore\":false}}");
        let bytes = CLIENTS.block_on(async { live.ask(way).await.read_until(is_end).await });
        let megabytes = bytes.len() as f64 / 1e6;
        compare(
            [&format!(
                "milliseconds for {HISTORY} events, {megabytes:.1} MB, by {way}"
            )],
            ("ours / bare", |ours, bare| ours / bare),
            || [CLIENTS.block_on(time(live.ask(way), is_end))],
            || [CLIENTS.block_on(time(bare::replay(bytes.clone()), is_end))],
        );
    }
    live.end();
}

/// Measures a run of agents that do nothing among connections that only take time, against such a run without them.
fn company() {
    use strangers::{DEAF, HALF_OPEN, run};
    let folder = tempfile::tempdir().expect("the system has room for a temporary folder");
    for codons in CODONS {
        compare(
            [&format!(
                "milliseconds for a run of {codons} codons among {HALF_OPEN} half-open connections and {DEAF} deaf clients"
            )],
            ("ours / bare", |among, alone| among / alone),
            || [run(folder.path(), codons, true)],
            || [run(folder.path(), codons, false)],
        );
    }
}

/// The milliseconds that a client takes to come and to read to the end.
async fn time(coming: impl Future<Output = Reader>, is_end: impl Fn(&[u8]) -> bool) -> f64 {
    let begin = Instant::now();
    let mut reader = coming.await;
    while !is_end(reader.frame().await.1) {}
    millis(begin.elapsed())
}

/// Where events come from.
trait Source {
    /// A client that gets what happens from now on.
    async fn reader(&mut self) -> Reader;

    /// Sends an event with this text to all clients.
    fn publish(&mut self, text: String) -> impl Future<Output = ()> + Send;
}

/// A source and its readers.
struct Side<S> {
    source: S,
    readers: Vec<Reader>,
}

impl<S: Source> Side<S> {
    fn new(mut source: S, readers: usize) -> Self {
        let readers = CLIENTS.block_on(async {
            let mut all = Vec::new();
            for _ in 0..readers {
                all.push(source.reader().await);
            }
            all
        });
        Self { source, readers }
    }

    /// Sends `burst` events at once, and the next ones when all clients have those; returns how many go in a second.
    fn rate(&mut self, burst: usize) -> f64 {
        let begin = Instant::now();
        for _ in 0..EVENTS / burst {
            self.turn(burst, Duration::ZERO);
        }
        (EVENTS / burst * burst) as f64 / begin.elapsed().as_secs_f64()
    }

    /// Publishes `events`, one each `pause`, and returns how long each took to each reader, once all readers have all.
    fn turn(&mut self, events: usize, pause: Duration) -> Vec<Duration> {
        let readers = self.readers.drain(..);
        let listening: Vec<_> = readers
            .map(|reader| CLIENTS.spawn(listen(reader, events)))
            .collect();
        SERVERS.block_on(async {
            let mut ticks = tokio::time::interval(pause.max(Duration::from_nanos(1)));
            for _ in 0..events {
                if !pause.is_zero() {
                    ticks.tick().await;
                }
                self.source.publish(text(now())).await;
            }
        });
        let mut delays = Vec::new();
        for listened in CLIENTS.block_on(join_all(listening)) {
            let (reader, own) = listened.expect("nobody misses anything");
            self.readers.push(reader);
            delays.extend(own);
        }
        delays
    }
}

/// Reads all events of a turn and notes how long each took.
async fn listen(mut reader: Reader, events: usize) -> (Reader, Vec<Duration>) {
    let mut delays = Vec::with_capacity(events);
    while delays.len() < events {
        // Other events of the run come between.
        if let Some(sent) = mark(reader.frame().await.1) {
            delays.push(Duration::from_nanos(now() - sent));
        }
    }
    (reader, delays)
}

/// Nanoseconds since the benchmark began.
fn now() -> u64 {
    BEGIN.elapsed().as_nanos() as u64
}

/// Returns a text of an agent; the number is at the end, where a reader finds it quickly.
fn text(number: u64) -> String {
    format!(
        "The parser now accepts a trailing comma; the tests of the module pass, the next is the printer. {number:012}~"
    )
}

/// The number in the text of a frame, when it is one of those.
fn mark(frame: &[u8]) -> Option<u64> {
    let text = frame.strip_suffix(b"~\"}}")?;
    std::str::from_utf8(text.get(text.len() - 12..)?)
        .ok()?
        .parse()
        .ok()
}

/// Lets both take turns and prints the figures of each, and what `relation` makes of those of one round.
fn compare<const N: usize>(
    what: [&str; N],
    (name, relation): (&str, fn(f64, f64) -> f64),
    mut ours: impl FnMut() -> [f64; N],
    mut bare: impl FnMut() -> [f64; N],
) {
    let rounds: Vec<_> = (0..ROUNDS).map(|_| (bare(), ours())).collect();
    for (at, what) in what.into_iter().enumerate() {
        let figures = || rounds.iter().map(|(bare, ours)| (ours[at], bare[at]));
        println!("{what}");
        println!("  hankweave    {}", spread(figures().map(|(ours, _)| ours)));
        println!("  bare         {}", spread(figures().map(|(_, bare)| bare)));
        println!(
            "  {name}  {}",
            spread(figures().map(|(ours, bare)| relation(ours, bare)))
        );
    }
}

fn spread(figures: impl Iterator<Item = f64>) -> String {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    format!("{:.2} ({least:.2} to {most:.2})", figures[figures.len() / 2])
}

/// Within which time half of the events came, and 99 of 100.
fn quantiles(mut delays: Vec<Duration>) -> [f64; 2] {
    delays.sort_unstable();
    [0.5, 0.99].map(|share| millis(delays[((delays.len() - 1) as f64 * share) as usize]))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
