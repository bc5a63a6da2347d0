//! A server that is reached over TCP and encrypts, with a certificate that is made for it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use super::{Cluster, as_nobody};
use crate::agents::Skip;

/// Name in the server's certificate; under any other name the server must be refused.
const NAMES: &str = "subjectAltName=DNS:localhost";

/// A cluster with a certificate for `localhost`.
#[derive(Debug)]
pub struct Secured {
    /// The cluster.
    pub cluster: Cluster,
    /// The certificate of the authority that has signed the server's, as PEM.
    pub authority: PathBuf,
    /// The certificate of an authority that has not signed it.
    pub other: PathBuf,
    port: u16,
}

impl Secured {
    /// Makes the certificates and starts the server.
    ///
    /// # Errors
    ///
    /// Returns [`Skip`] when PostgreSQL or openssl is not installed.
    pub fn start() -> Result<Self, Skip> {
        let port = free_port()?;
        let cluster = Cluster::start_with(false, |folder| {
            certify(folder)?;
            let at = |name: &str| folder.join(name).display().to_string();
            let settings = [
                "listen_addresses=127.0.0.1".to_owned(),
                format!("port={port}"),
                "ssl=on".to_owned(),
                format!("ssl_cert_file={}", at("server.crt")),
                format!("ssl_key_file={}", at("server.key")),
            ];
            Ok(settings.to_vec())
        })?;
        let folder = cluster.folder.path();
        Ok(Self {
            authority: folder.join("authority.crt"),
            other: folder.join("other.crt"),
            cluster,
            port,
        })
    }

    /// The URL by this name of the host, with options such as `sslmode=require`.
    #[must_use]
    pub fn url(&self, host: &str, options: &str) -> String {
        format!("postgres://hankweave@{host}:{}/postgres?{options}", self.port)
    }
}

fn free_port() -> Result<u16, Skip> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound
        .map(|address| address.port())
        .map_err(|error| Skip(error.to_string()))
}

fn certify(folder: &Path) -> Result<(), Skip> {
    let key = |name: &str| {
        format!("-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {name}.key -subj /CN={name}")
    };
    for authority in ["authority", "other"] {
        let new = key(authority);
        openssl(folder, &format!("req -x509 {new} -days 30 -out {authority}.crt"))?;
    }
    openssl(
        folder,
        &format!("req {} -addext {NAMES} -out server.csr", key("server")),
    )?;
    openssl(
        folder,
        "x509 -req -in server.csr -copy_extensions copy -CA authority.crt -CAkey authority.key -CAcreateserial -days 30 -out server.crt",
    )
}

fn openssl(folder: &Path, arguments: &str) -> Result<(), Skip> {
    let mut openssl = as_nobody(Path::new("openssl"));
    let done = openssl
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .map_err(|error| Skip(format!("openssl: {error}")))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(Skip(format!(
            "openssl: {}",
            String::from_utf8_lossy(&done.stderr)
        ))),
    }
}
