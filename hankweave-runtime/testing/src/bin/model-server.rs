//! The scripted model server as a program: for trying an agent by hand.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::Parser;
use hankweave_testing::model_server::{Asked, AskedKind, ModelServer, Options, Scenario};
use serde_json::Value;

/// Plays a scenario file to any coding agent whose API address can be set. Listens on 127.0.0.1 only.
#[derive(Parser)]
struct Arguments {
    /// Scenario file; the format is described in docs/testing.md
    #[arg(long)]
    scenario: PathBuf,
    /// Port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Write the port here as soon as the server listens
    #[arg(long)]
    port_file: Option<PathBuf>,
    /// Append one JSON line for each request to this file
    #[arg(long)]
    log: Option<PathBuf>,
    /// Include the requests themselves in the log
    #[arg(long, requires = "log")]
    log_bodies: bool,
    /// Value for ${NAME} in the strings of the scenario
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
}

fn main() -> ExitCode {
    match serve(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes = std::iter::successors(error.source(), |cause| (*cause).source());
            let chain = causes.fold(error.to_string(), |chain, cause| format!("{chain}: {cause}"));
            eprintln!("error: {chain}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let place = |error| format!("{}: {error}", arguments.scenario.display());
    let text = fs::read_to_string(&arguments.scenario).map_err(|error| place(error.to_string()))?;
    let scenario: Scenario = text.parse().map_err(|error| place(format!("{error}")))?;
    let options = Options {
        port: arguments.port,
        variables: BTreeMap::from_iter(arguments.variables),
        on_request: on_request(arguments.log.as_deref(), arguments.log_bodies)?,
    };
    let server = ModelServer::start_with(scenario, options)?;
    let url = server.url();
    if let Some(file) = &arguments.port_file {
        write_port(file, &url)?;
    }
    println!("listening {url}");
    server.wait();
    Ok(())
}

type OnRequest = Box<dyn Fn(&Asked) + Send + Sync>;

fn on_request(log: Option<&Path>, bodies: bool) -> Result<OnRequest, std::io::Error> {
    let Some(path) = log else {
        return Ok(Box::new(|_| {}));
    };
    let file = Mutex::new(OpenOptions::new().create(true).append(true).open(path)?);
    Ok(Box::new(move |asked| {
        if let Err(error) = append(&file, asked, bodies) {
            eprintln!("error: failed to write the log: {error}");
        }
    }))
}

fn append(file: &Mutex<File>, asked: &Asked, bodies: bool) -> std::io::Result<()> {
    let mut asked = asked.clone();
    if let (AskedKind::Model { body, .. }, false) = (&mut asked.kind, bodies) {
        *body = Value::Null;
    }
    let line = serde_json::to_string(&asked)? + "\n";
    let mut file = file.lock().expect("nothing panics while it holds the log");
    file.write_all(line.as_bytes())
}

/// A reader never sees half a number: the file appears under its name when it is complete.
fn write_port(file: &Path, url: &str) -> std::io::Result<()> {
    let port = url.rsplit(':').next().expect("an address ends with its port");
    let unfinished = file.with_extension("tmp");
    fs::write(&unfinished, port)?;
    fs::rename(unfinished, file)
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
