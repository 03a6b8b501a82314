//! Client-side view of a Ballista scheduler: its address, and whether it has executors.
//!
//! Ballista ends a job when its last executor is lost. A job sent to a scheduler that never had an executor, or that
//! was restarted, waits forever. The client therefore polls for executors.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// Polling interval of the client.
const POLL: Duration = Duration::from_secs(1);

/// Address of a scheduler, and how long a client waits for executors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    pub(crate) address: String,
    pub(crate) patience: Duration,
}

impl Scheduler {
    /// Returns whether executors are registered; false if the scheduler refuses the connection. Other failed requests
    /// return true, because the job itself then fails.
    async fn has_executors(&self) -> bool {
        let ask = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            let request =
                format!("GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
            stream.write_all(request.as_bytes()).await?;
            let mut status = [0; 12];
            stream.read_exact(&mut status).await?;
            Ok::<_, std::io::Error>(status)
        };
        match timeout(POLL, ask).await {
            Ok(Ok(status)) => &status != b"HTTP/1.1 503",
            Ok(Err(error)) => error.kind() != std::io::ErrorKind::ConnectionRefused,
            Err(_) => true,
        }
    }

    /// Completes when there have been no executors for the time `patience`, and never otherwise.
    pub(crate) async fn lost(&self) {
        let mut last = Instant::now();
        while last.elapsed() < self.patience {
            sleep(POLL).await;
            if self.has_executors().await {
                last = Instant::now();
            }
        }
    }
}
