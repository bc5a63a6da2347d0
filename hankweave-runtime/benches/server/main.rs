//! What the socket costs beside bare loops over sockets that do nothing else.
//!
//! Events go the whole way: an agent tells them, the run records and publishes them, the server hands them to clients on the loopback. The bare
//! loops send texts of the same form through tokio-tungstenite, or the same bytes through a socket, to the same readers. Both take turns, since
//! the speed of a machine changes, and a ratio is that of two turns of the same round.
//!
//! `cargo bench -p hankweave-runtime --bench server`

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark measures the real world"
)]

mod reader;
mod sources;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use self::reader::{Reader, frames};
use self::sources::{Bare, Live, Source};

const ROUNDS: usize = 7;

/// Events that go to many clients: one at a time, or so many at once, which is fewer than may wait for one client.
const MANY: usize = 100;
const BURSTS: [usize; 2] = [1, 500];
const EVENTS: usize = 1_000;

/// Events that come one a millisecond.
const SOME: usize = 20;
const PACED: usize = 2_000;

const HISTORY: usize = 100_000;
const LAST: &[u8] = b"00099999";

fn main() {
    // `cargo test --benches` passes arguments of the test harness; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtimes = Runtimes {
        servers: runtime(2),
        clients: runtime(1),
    };
    println!("medians of {ROUNDS} rounds (least to most)");
    many(&runtimes);
    paced(&runtimes);
    history(&runtimes);
}

/// Servers and clients have threads of their own, as programs of their own would.
struct Runtimes {
    servers: Runtime,
    clients: Runtime,
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(threads).enable_all().build();
    runtime.expect("threads can be started")
}

/// Events as fast as they go to a hundred clients.
fn many(runtimes: &Runtimes) {
    let (mut ours, mut bare) = sides(runtimes, MANY);
    for burst in BURSTS {
        let mut rates: Vec<(f64, f64)> = Vec::new();
        for _ in 0..ROUNDS {
            let bare = rate(runtimes, &mut bare, burst);
            rates.push((rate(runtimes, &mut ours, burst), bare));
        }
        println!("events a second to each of {MANY} clients, {burst} at a time");
        println!("  hankweave    {}", spread(rates.iter().map(|(ours, _)| *ours)));
        println!("  bare         {}", spread(rates.iter().map(|(_, bare)| *bare)));
        println!(
            "  ours / bare  {}",
            spread(rates.iter().map(|(ours, bare)| ours / bare))
        );
    }
    ours.source.end(runtimes);
}

/// Sends `burst` events at once, and the next ones when all clients have those.
fn rate<S: Source>(runtimes: &Runtimes, side: &mut Side<S>, burst: usize) -> f64 {
    let begin = Instant::now();
    for _ in 0..EVENTS / burst {
        turn(runtimes, side, burst, Duration::ZERO);
    }
    (EVENTS / burst * burst) as f64 / begin.elapsed().as_secs_f64()
}

/// How long an event takes to its clients when there is time for it.
fn paced(runtimes: &Runtimes) {
    let (mut ours, mut bare) = sides(runtimes, SOME);
    let mut delays: Vec<(Vec<Duration>, Vec<Duration>)> = Vec::new();
    for _ in 0..ROUNDS {
        let bare = turn(runtimes, &mut bare, PACED, Duration::from_millis(1));
        delays.push((turn(runtimes, &mut ours, PACED, Duration::from_millis(1)), bare));
    }
    println!("milliseconds from the agent's word to a client, 1,000 events a second, {SOME} clients");
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let ours = delays.iter().map(|(ours, _)| quantile(ours, share));
        let bare = delays.iter().map(|(_, bare)| quantile(bare, share));
        println!("  {name}: hankweave    {}", spread(ours.clone()));
        println!("  {name}: bare         {}", spread(bare.clone()));
        println!(
            "  {name}: ours - bare  {}",
            spread(ours.zip(bare).map(|(ours, bare)| ours - bare))
        );
    }
    ours.source.end(runtimes);
}

/// Everything that happened, to one client.
fn history(runtimes: &Runtimes) {
    let mut live = Live::start(runtimes);
    runtimes.servers.block_on(async {
        for number in 0..HISTORY {
            live.publish(text(number)).await;
        }
    });
    // A client that has everything tells that everything is there.
    for way in [Way::Resume, Way::Sync] {
        let bytes = runtimes.clients.block_on(keep(&live, way));
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bare.push(millis(runtimes.clients.block_on(replay(runtimes, &bytes))));
            ours.push(millis(runtimes.clients.block_on(fetch(&live, way))));
        }
        let ratios = ours.iter().zip(&bare).map(|(ours, bare)| ours / bare);
        let megabytes = bytes.len() as f64 / 1e6;
        println!("milliseconds for a history of {HISTORY} events, {megabytes:.1} MB, {way:?}");
        println!("  hankweave    {}", spread(ours.iter().copied()));
        println!("  bare         {}", spread(bare.iter().copied()));
        println!("  ours / bare  {}", spread(ratios));
    }
    live.end(runtimes);
}

/// How a client asks for what has happened.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// By its handshake: each event comes as a message of its own.
    Resume,
    /// With `history.sync`: many come in one message.
    Sync,
}

impl Way {
    async fn ask(self, live: &Live) -> Reader {
        let (mut reader, question) = match self {
            Self::Resume => (
                live.reader().await,
                r#"{"type":"handshake","data":{"mode":"readonly","afterSeq":0}}"#,
            ),
            Self::Sync => (live.watcher().await, r#"{"id":"h","type":"history.sync"}"#),
        };
        reader.say(question).await;
        reader
    }

    fn is_end(self, frame: &[u8]) -> bool {
        match self {
            Self::Resume => mark(frame).is_some_and(|mark| mark == LAST),
            Self::Sync => frame.ends_with(b"\"hasMore\":false}}"),
        }
    }
}

/// The time that the history takes.
async fn fetch(live: &Live, way: Way) -> Duration {
    let begin = Instant::now();
    let mut reader = way.ask(live).await;
    while !way.is_end(reader.frame().await.1) {}
    begin.elapsed()
}

/// Its bytes, as they come.
async fn keep(live: &Live, way: Way) -> Vec<u8> {
    let mut reader = way.ask(live).await;
    let mut bytes = Vec::new();
    loop {
        let (frame, content) = reader.frame().await;
        bytes.extend_from_slice(frame);
        if way.is_end(content) {
            return bytes;
        }
    }
}

/// The time that the same bytes take through a socket that somebody just fills.
async fn replay(runtimes: &Runtimes, bytes: &[u8]) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let stream = TcpStream::connect(listener.local_addr().expect("it listens")).await;
    let mut reader = Reader::new(stream.expect("somebody listens"));
    let (content, frames) = (bytes.to_vec(), frames(bytes));
    let writing = runtimes.servers.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("somebody comes");
        let mut go = [0; 1];
        stream.read_exact(&mut go).await.expect("the reader says when");
        stream.write_all(&content).await.expect("the reader reads");
    });
    let begin = Instant::now();
    reader.stream.write_all(b"!").await.expect("the writer waits");
    for _ in 0..frames {
        reader.frame().await;
    }
    let elapsed = begin.elapsed();
    writing.await.expect("it does not panic");
    elapsed
}

/// Where events come from, and those who read them.
struct Side<S> {
    source: S,
    readers: Vec<Reader>,
}

/// Hankweave and the bare loop with so many readers each.
fn sides(runtimes: &Runtimes, readers: usize) -> (Side<Live>, Side<Bare>) {
    let source = Live::start(runtimes);
    let watchers = runtimes.clients.block_on(async {
        let mut watchers = Vec::new();
        for _ in 0..readers {
            watchers.push(source.watcher().await);
        }
        watchers
    });
    let (bare, readers) = runtimes.servers.block_on(Bare::start(runtimes, readers));
    (
        Side {
            source,
            readers: watchers,
        },
        Side {
            source: bare,
            readers,
        },
    )
}

/// Publishes `events` with a pause behind each and returns how long each took to each reader, once all readers have all.
fn turn<S: Source>(runtimes: &Runtimes, side: &mut Side<S>, events: usize, pause: Duration) -> Vec<Duration> {
    let clock = Arc::new(Clock::new(events));
    let listening: Vec<_> = side
        .readers
        .drain(..)
        .map(|reader| runtimes.clients.spawn(listen(reader, Arc::clone(&clock))))
        .collect();
    runtimes.servers.block_on(async {
        let mut ticks = tokio::time::interval(pause.max(Duration::from_nanos(1)));
        for number in 0..events {
            if !pause.is_zero() {
                ticks.tick().await;
            }
            clock.sent[number].store(clock.now(), Ordering::Relaxed);
            side.source.publish(text(number)).await;
        }
    });
    let mut delays = Vec::new();
    for (reader, own) in runtimes
        .clients
        .block_on(join_all(listening))
        .into_iter()
        .flatten()
    {
        side.readers.push(reader);
        delays.extend(own);
    }
    assert_eq!(
        delays.len(),
        events * side.readers.len(),
        "somebody missed something"
    );
    delays
}

/// When each event was sent, in nanoseconds.
struct Clock {
    begin: Instant,
    sent: Vec<AtomicU64>,
}

impl Clock {
    fn new(events: usize) -> Self {
        Self {
            begin: Instant::now(),
            sent: (0..events).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
}

/// Reads all events of a turn and notes how long each took.
async fn listen(mut reader: Reader, clock: Arc<Clock>) -> (Reader, Vec<Duration>) {
    let mut delays = Vec::with_capacity(clock.sent.len());
    while delays.len() < clock.sent.len() {
        // Other events of the run come between.
        let Some(mark) = mark(reader.frame().await.1) else {
            continue;
        };
        let number: usize = std::str::from_utf8(mark)
            .ok()
            .and_then(|mark| mark.parse().ok())
            .expect("a mark is a number");
        let sent = clock.sent[number].load(Ordering::Relaxed);
        delays.push(Duration::from_nanos(clock.now() - sent));
    }
    (reader, delays)
}

/// What an agent says; the number stands where a reader finds it quickly.
fn text(number: usize) -> String {
    format!(
        "The parser now accepts a trailing comma; the tests of the module pass, the next step is the printer. {number:08}~"
    )
}

/// The number in the text of a frame, when it is one of those.
fn mark(frame: &[u8]) -> Option<&[u8]> {
    let text = frame.strip_suffix(b"~\"}}")?;
    text.get(text.len() - 8..)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn quantile(delays: &[Duration], share: f64) -> f64 {
    let mut delays = delays.to_vec();
    delays.sort_unstable();
    millis(delays[((delays.len() - 1) as f64 * share) as usize])
}

fn spread(figures: impl Iterator<Item = f64>) -> String {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    format!("{:.2} ({least:.2} to {most:.2})", figures[figures.len() / 2])
}
