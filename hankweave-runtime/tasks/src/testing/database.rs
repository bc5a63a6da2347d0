//! Changes of a test's database without the coordinator's knowledge.

use tokio_postgres::NoTls;

/// Statements after which the database takes the time from a table, as if its clock had stopped. Queries for the time stay the same.
const STOP_CLOCK: &str = "CREATE TABLE public.clock AS SELECT clock_timestamp() AS at;
    ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO clock_of_the_server;
    CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
        AS 'SELECT at FROM public.clock'";

/// Runs these statements; returns the reason if that fails.
pub(crate) async fn run(url: &str, sql: &str) -> Result<(), String> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.map_err(|error| error.to_string())?;
    let work = async {
        let result = client.batch_execute(sql).await;
        // Ends the connection.
        drop(client);
        result
    };
    let (ended, result) = tokio::join!(connection, work);
    result.and(ended).map_err(|error| {
        let message = error.as_db_error().map(ToString::to_string);
        message.unwrap_or_else(|| error.to_string())
    })
}

/// Stops the clock of this database, which must belong to the test alone.
pub(crate) async fn stop_clock(url: &str) -> Result<(), String> {
    run(url, STOP_CLOCK).await
}

/// Moves a stopped clock by this number of milliseconds, forwards or back.
pub(crate) async fn jump(url: &str, millis: i64) {
    let sql = format!("UPDATE public.clock SET at = at + {millis} * interval '1 millisecond'");
    run(url, &sql).await.unwrap();
}
