//! Tasks and locks of many machines, in PostgreSQL (TASK-27).
//!
//! Every operation is one transaction. It gets a resource for itself by an advisory lock on the resource's name, which the database drops at the end
//! of the transaction. After getting the lock it reads the database's clock, so that leases that expired during the wait count as expired. Its writes are
//! sent together with the commit.

mod lease;
mod listener;
mod schema;
#[cfg(test)]
mod tests;
mod tls;
mod trouble;
mod tx;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use hankweave_task_model::TaskError;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::coordinator::Hints;
use crate::engine::{Backend, Fencing, Transaction, TxError, TxResult, error_of};
use lease::ConnectionLease;
use listener::NotifyListener;
use tx::PostgresTx;

/// Maximum number of connections.
const MOST_CONNECTIONS: usize = 20;
/// Time limit of connecting.
const CONNECT: Duration = Duration::from_secs(2);
/// Time limit of an operation, including its wait for others.
const LONGEST: Duration = Duration::from_secs(10);
/// Number of attempts at an operation that meets conflicts with others.
const MOST_ATTEMPTS: u32 = 3;

/// Session settings, with limits so that the database does not wait for a program that stopped during a transaction. A transaction has to see what others
/// committed while it waited for its lock, whatever the database or the role has for a default.
const SESSION: &str = "SET search_path TO hankweave; SET lock_timeout = '5s'; SET statement_timeout = '10s';
    SET idle_in_transaction_session_timeout = '10s'; SET synchronous_commit = on;
    SET default_transaction_isolation = 'read committed'";

/// Coordinator for many machines.
pub struct Postgres {
    pool: Pool,
    hints: Arc<Hints>,
    /// `None` once the coordinator is closed.
    listener: Mutex<Option<NotifyListener>>,
    fencing: Fencing,
}

impl Postgres {
    /// Version of the tables.
    pub const FORMAT: usize = schema::MIGRATIONS.len();

    /// Connects to a database by its URL, `postgres://user@host/database`, encrypted according to its `sslmode` (TASK-73). Creates the tables in the
    /// schema `hankweave` if they are missing.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::RegistryNotInitialized`] for an invalid URL and for a database that has a later version, refuses access or is not encrypted
    /// as the URL asks for; returns [`TaskError::LockBackendUnavailable`] for a database that is away.
    pub async fn open(url: &str) -> Result<Self, TaskError> {
        Self::open_with(url, Fencing::Checked).await
    }

    pub(crate) async fn open_with(url: &str, fencing: Fencing) -> Result<Self, TaskError> {
        let refused = |reason: String| TaskError::RegistryNotInitialized(reason);
        let (mut config, secure) = tls::read(url).map_err(refused)?;
        config.connect_timeout(CONNECT).tcp_user_timeout(LONGEST);
        config.application_name("hankweave");
        let pool = pool(config.clone(), secure.clone()).map_err(|error| refused(error.to_string()))?;
        let mut connection = pool.get().await.map_err(|error| unopened(error.into()))?;
        let migrated = timeout(LONGEST, schema::migrate(&mut connection)).await;
        let migrated =
            migrated.map_err(|_| TaskError::LockBackendUnavailable("its tables are locked".to_owned()))?;
        migrated
            .map_err(|error| unopened(error.into()))?
            .map_err(refused)?;
        drop(connection);
        let hints = Arc::new(Hints::default());
        let listener = NotifyListener::start((config, secure), pool.clone(), hints.clone());
        Ok(Self {
            pool,
            hints,
            listener: Mutex::new(Some(listener)),
            fencing,
        })
    }

    /// Performs the operation once. The second value is whether it failed because of a conflict, so that another attempt at once is worthwhile.
    async fn attempt<O: Transaction>(&self, operation: &O) -> (TxResult<O::Output>, bool) {
        let connection = match ConnectionLease::of(&self.pool).await {
            Ok(connection) => connection,
            Err(trouble) => return (Err(trouble), false),
        };
        let mut tx = PostgresTx::new(&connection, self.fencing, O::WRITES);
        let performed = timeout(LONGEST, async {
            let result = operation.perform(&mut tx).await;
            tx.end(result).await
        });
        let result = performed.await;
        let silent = |_| {
            Err(TxError::Away(format!(
                "it did not answer for {} s",
                LONGEST.as_secs()
            )))
        };
        (result.unwrap_or_else(silent), tx.met_conflict())
    }

    /// Sends a hint to the listeners of this process and of other machines.
    fn notify(&self) {
        self.hints.notify();
        if let Some(listener) = &*self.listener.lock().unwrap_or_else(PoisonError::into_inner) {
            listener.notify();
        }
    }
}

/// Returns the error of a database that cannot be opened.
fn unopened(trouble: TxError) -> TaskError {
    match trouble {
        TxError::Away(reason) => TaskError::LockBackendUnavailable(reason),
        TxError::Failed(reason) => TaskError::RegistryNotInitialized(reason),
        TxError::Refused(error) => error,
    }
}

fn pool(config: Config, secure: MakeRustlsConnect) -> Result<Pool, deadpool_postgres::BuildError> {
    let recycling_method = RecyclingMethod::Fast;
    let manager = Manager::from_config(config, secure, ManagerConfig { recycling_method });
    let prepare = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move { client.batch_execute(SESSION).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(MOST_CONNECTIONS)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(LONGEST))
        .create_timeout(Some(CONNECT))
        .recycle_timeout(Some(CONNECT))
        .post_create(prepare)
        .build()
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Backend for Postgres {
    async fn run<O: Transaction>(&self, operation: O) -> Result<O::Output, TaskError> {
        for number in 1.. {
            let (result, met_conflict) = self.attempt(&operation).await;
            match result {
                Ok(output) => {
                    if O::WRITES && operation.notifies() {
                        self.notify();
                    }
                    return Ok(output);
                }
                Err(_) if met_conflict && number < MOST_ATTEMPTS => {}
                Err(trouble) => return Err(error_of(&operation, trouble)),
            }
        }
        // Not reached: the last attempt returns its own error.
        Err(TaskError::LockBackendUnavailable(
            "others were always quicker".to_owned(),
        ))
    }

    fn hints(&self) -> &Hints {
        &self.hints
    }

    async fn close(&self) {
        let listener = self
            .listener
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(listener) = listener {
            listener.stop().await;
        }
        self.pool.close();
    }
}
