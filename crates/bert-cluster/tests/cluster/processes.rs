//! A cluster of real processes on this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bert_data::BuildConfig;

/// A process that is killed when it is dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(program: &str, arguments: &[&str], environment: &[(&str, String)]) -> Self {
        let mut command = Command::new(program);
        command
            .envs(environment.iter().cloned())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The first line has the listening address, the second a warning; the others are printed if a test fails.
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains(" on "), "{first}");
        let second = lines.next().unwrap().unwrap();
        assert!(second.starts_with("warning: ") && second.contains("can run plans"), "{second}");
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Self(child)
    }

    /// Sends a signal to the process: STOP, CONT.
    pub fn signal(&self, name: &str) {
        let signal = format!("-{name}");
        assert!(Command::new("kill").args([signal, self.0.id().to_string()]).status().unwrap().success());
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A scheduler and its executors.
pub struct Cluster {
    pub scheduler: Process,
    pub executors: Vec<Process>,
    port: String,
    environment: Vec<(&'static str, String)>,
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

impl Cluster {
    pub fn start(executors: usize) -> Self {
        Self::start_with(executors, Vec::new())
    }

    /// Starts a cluster whose executors have these environment variables.
    pub fn start_with(executors: usize, environment: Vec<(&'static str, String)>) -> Self {
        let port = free_port();
        let scheduler = Self::scheduler(&port);
        let mut cluster = Self { scheduler, executors: Vec::new(), port, environment };
        cluster.executors = (0..executors).map(|_| cluster.executor()).collect();
        cluster
    }

    fn scheduler(port: &str) -> Process {
        let scheduler = Process::start(
            env!("CARGO_BIN_EXE_bert-scheduler"),
            &["--port", port, "--executor-timeout", "4", "--no-executors-timeout", "6"],
            &[],
        );
        let start = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "the scheduler does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        scheduler
    }

    /// Starts one more executor, with one core.
    pub fn executor(&self) -> Process {
        let scheduler = format!("127.0.0.1:{}", self.port);
        Process::start(
            env!("CARGO_BIN_EXE_bert-executor"),
            &["--scheduler", &scheduler, "--vcores", "1", "--heartbeat", "1"],
            &self.environment,
        )
    }

    /// Starts an executor that can write at most 64 KiB to a file, which simulates a full disk without root rights.
    pub fn executor_with_full_disk(&self) -> Process {
        let scheduler = format!("127.0.0.1:{}", self.port);
        let limited = "trap '' XFSZ; ulimit -f 128; exec \"$@\"";
        let executor = env!("CARGO_BIN_EXE_bert-executor");
        let arguments =
            ["-c", limited, "sh", executor, "--scheduler", &scheduler, "--vcores", "1", "--heartbeat", "1"];
        Process::start("sh", &arguments, &[])
    }

    /// Restarts the scheduler, which loses its state.
    pub fn restart_scheduler(&mut self) {
        self.scheduler.kill();
        self.scheduler = Self::scheduler(&self.port);
    }

    pub fn engine(&self) -> String {
        format!("ballista://127.0.0.1:{}", self.port)
    }
}

/// A build that was submitted to an engine.
pub struct Job(Process);

impl Job {
    pub fn send(engine: &str, config: &BuildConfig, tasks: u32) -> Self {
        Self::send_with(engine, config, tasks, Vec::new())
    }

    /// Submits a build with these environment variables.
    pub fn send_with(
        engine: &str,
        config: &BuildConfig,
        tasks: u32,
        environment: Vec<(&str, String)>,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bert-cluster"));
        command.envs(environment).args([
            "--engine",
            engine,
            "--tasks",
            &tasks.to_string(),
            "--executors-timeout",
            "8",
        ]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let options = serde_json::to_vec(config).unwrap();
        child.stdin.take().unwrap().write_all(&options).unwrap();
        Self(Process(child))
    }

    pub fn is_running(&mut self) -> bool {
        self.0.0.try_wait().unwrap().is_none()
    }

    /// Waits until the build has begun to write in or below this folder.
    pub fn wait_for_files(&mut self, folder: &Path) {
        fn has_file(folder: &Path) -> bool {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).any(|path| path.is_file() || has_file(&path))
        }
        let start = Instant::now();
        while !has_file(folder) {
            assert!(self.is_running(), "the build ended before it wrote a file");
            assert!(start.elapsed() < Duration::from_secs(60), "the build writes nothing");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns its exit code and output; fails the test after a minute and a half.
    pub fn end(mut self) -> (i32, String) {
        let start = Instant::now();
        while self.is_running() {
            assert!(start.elapsed() < Duration::from_secs(90), "the job hangs");
            thread::sleep(Duration::from_millis(20));
        }
        let mut text = String::new();
        let stderr = BufReader::new(self.0.0.stderr.take().unwrap());
        for line in stderr.lines().map_while(Result::ok) {
            text = format!("{text}{line}\n");
        }
        (self.0.0.wait().unwrap().code().unwrap_or(-1), text)
    }
}

/// Submits a build and expects success.
pub fn build(engine: &str, config: &BuildConfig, tasks: u32) {
    let (code, message) = Job::send(engine, config, tasks).end();
    assert_eq!(code, 0, "{message}");
}

/// Runs the local build of `make-pretrain-data`.
pub fn local(config: &BuildConfig) {
    bert_data::build(config, &mut |_| {}).unwrap();
}
