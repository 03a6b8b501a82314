//! An S3 server over a folder, and an unreliable network proxy in front of it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bert_storage::objects::RetryingConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use object_store::aws::AmazonS3Builder;
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;

/// A secret that must never be printed or saved.
pub const SECRET: &str = "aVerySecretKeyThatNobodyMayRead";
const KEY: &str = "test";

/// A server that is stopped when it is dropped.
pub struct Server {
    pub address: SocketAddr,
    /// Folder with one subfolder per bucket.
    pub folder: tempfile::TempDir,
    _threads: tokio::runtime::Runtime,
}

impl Server {
    /// Starts a server that requires the key, or one that can be read like a web server without a key.
    pub fn start(with_key: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder.path()).unwrap());
        if with_key {
            service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        }
        let service = service.build();
        let threads =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = threads.block_on(tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        threads.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, folder, _threads: threads }
    }

    /// Returns the environment variables of programs that use the server.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let endpoint = format!("http://{}", self.address);
        vec![
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "here".to_owned()),
            ("AWS_ENDPOINT_URL", endpoint),
        ]
    }

    /// Creates a bucket with a name unique to this test, served over `network`, and returns its URL.
    pub fn bucket(&self, network: SocketAddr) -> PathBuf {
        static BUCKETS: AtomicUsize = AtomicUsize::new(0);
        let name = format!("bucket-{}", BUCKETS.fetch_add(1, Ordering::Relaxed));
        std::fs::create_dir(self.folder.path().join(&name)).unwrap();
        let store = AmazonS3Builder::new()
            .with_endpoint(format!("http://{network}"))
            .with_region("here")
            .with_bucket_name(&name)
            .with_access_key_id(KEY)
            .with_secret_access_key(SECRET)
            .with_http_connector(RetryingConnector::default())
            .with_client_options(
                ClientOptions::new()
                    .with_allow_http(true)
                    .with_timeout(Duration::from_secs(2))
                    .with_connect_timeout(Duration::from_secs(1)),
            )
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(5),
                    max_backoff: Duration::from_millis(100),
                    base: 2.0,
                },
                max_retries: 30,
                retry_timeout: Duration::from_secs(8),
            });
        let root = format!("s3://{name}");
        bert_storage::objects::mount(&root, Arc::new(store.build().unwrap()));
        PathBuf::from(root)
    }
}

/// Simulated fate of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It works.
    Good,
    /// It is closed at once.
    Refused,
    /// The server is broken.
    Error500,
    /// The server never answers.
    Silent,
    /// All data arrives, 16 KiB per 20 ms.
    Slow,
    /// It is closed after this number of answer bytes.
    Cut(u64),
}

/// A proxy port that forwards connections to a server with simulated failures.
pub struct Network {
    pub address: SocketAddr,
    fate: Arc<Mutex<Box<dyn FnMut() -> Fate + Send>>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// Number of connections with a failure.
    pub bad: Arc<AtomicU64>,
}

impl Network {
    pub fn before(server: SocketAddr, fate: impl FnMut() -> Fate + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let fate: Arc<Mutex<Box<dyn FnMut() -> Fate + Send>>> = Arc::new(Mutex::new(Box::new(fate)));
        let (fates, bad) = (Arc::clone(&fate), Arc::new(AtomicU64::new(0)));
        let (count, open) = (Arc::clone(&bad), Arc::new(Mutex::new(Vec::new())));
        let opened = Arc::clone(&open);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let fate = fates.lock().unwrap()();
                if fate != Fate::Good {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                opened.lock().unwrap().extend(client.try_clone());
                thread::spawn(move || {
                    let _ = connect(&client, server, fate);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, fate, open, bad }
    }

    /// Creates a network with all kinds of failures, drawn from a seed.
    pub fn bad(server: SocketAddr, seed: u64) -> Self {
        let mut state = seed;
        Self::before(server, move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = state >> 40;
            match drawn % 16 {
                0..3 => Fate::Cut(drawn / 16 % 1_000_000),
                3..7 => Fate::Error500,
                7..9 => Fate::Refused,
                9 => Fate::Silent,
                10 => Fate::Slow,
                _ => Fate::Cut(drawn / 16 % 4_000),
            }
        })
    }

    /// Closes all connections.
    pub fn cut(&self) {
        for connection in self.open.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub fn set(&self, fate: impl FnMut() -> Fate + Send + 'static) {
        *self.fate.lock().unwrap() = Box::new(fate);
    }
}

fn connect(mut client: &TcpStream, server: SocketAddr, fate: Fate) -> io::Result<()> {
    match fate {
        Fate::Refused => return Ok(()),
        Fate::Silent => {
            // Wait until the client gives up.
            io::copy(&mut client, &mut io::sink())?;
            return Ok(());
        }
        Fate::Error500 => {
            let _ = client.read(&mut [0; 1 << 12])?;
            client.write_all(
                b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            )?;
            return Ok(());
        }
        Fate::Good | Fate::Slow | Fate::Cut(_) => {}
    }
    let mut server = TcpStream::connect(server)?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut left = if let Fate::Cut(bytes) = fate { bytes } else { u64::MAX };
    let mut buffer = [0; 1 << 14];
    while left > 0 {
        let length = server.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        let length = left.min(length as u64);
        client.write_all(&buffer[..length as usize])?;
        left -= length;
        if fate == Fate::Slow {
            thread::sleep(Duration::from_millis(20));
        }
    }
    server.shutdown(Shutdown::Both)
}
