//! Reads how much memory the process can get: from the machine, its control groups, and `ulimit`.
//!
//! All limits are read from Linux files; on other systems no limit is known. A file that is missing or not understood
//! gives no limit.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use burn::tensor::Device;

/// The source of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    /// The memory and swap space of the machine.
    Machine,
    /// The memory that is free at the moment; this may change.
    Available,
    /// A control group, as used by containers and batch systems.
    ControlGroup,
    /// `ulimit -v`: the process's address space.
    AddressSpace,
    /// `ulimit -d`: the process's data segment.
    Data,
    /// The memory of a GPU.
    Card,
}

/// A memory limit for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The source of the limit.
    pub(crate) kind: LimitKind,
    /// Bytes of this process: its share, if several ranks share the limit.
    pub(crate) bytes: u64,
    /// Ranks that share the limit.
    pub(crate) ranks: usize,
}

impl Display for MemoryLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = bytes_in_words(self.bytes * self.ranks as u64);
        match self.kind {
            LimitKind::Machine => write!(f, "the machine has {bytes}, with swap space"),
            LimitKind::Available => write!(f, "{bytes} are free on this machine"),
            LimitKind::ControlGroup => write!(f, "the control group (container or job) allows {bytes}"),
            LimitKind::AddressSpace => write!(f, "`ulimit -v` allows {bytes}"),
            LimitKind::Data => write!(f, "`ulimit -d` allows {bytes}"),
            LimitKind::Card => write!(f, "the card has {bytes}"),
        }?;
        match self.ranks {
            1 => Ok(()),
            ranks => write!(f, " for {ranks} ranks"),
        }
    }
}

impl MemoryLimit {
    /// Returns the limits of one of `ranks` processes on this computer that compute on a device. On a GPU, which no
    /// other rank uses, the only limit is its memory, if its driver reports it. On the CPU, these are the limits of
    /// [`Self::for_rank`].
    pub fn for_device(device: &Device, ranks: usize) -> Vec<Self> {
        match bert_kernels::gpu_properties(device) {
            Some(card) => card.memory.map(|bytes| Self::new(LimitKind::Card, bytes)).into_iter().collect(),
            None => Self::for_rank(ranks),
        }
    }

    /// Returns all known limits of one of `ranks` processes on this computer. The processes share the memory of the
    /// computer and the control group.
    pub fn for_rank(ranks: usize) -> Vec<Self> {
        Self::in_system(Path::new("/")).into_iter().map(|limit| limit.shared_by(ranks)).collect()
    }

    fn shared_by(self, ranks: usize) -> Self {
        match self.kind {
            LimitKind::AddressSpace | LimitKind::Data => self,
            _ => Self { bytes: self.bytes / ranks as u64, ranks, ..self },
        }
    }

    /// Creates a limit of a single process.
    pub(crate) fn new(kind: LimitKind, bytes: u64) -> Self {
        Self { kind, bytes, ranks: 1 }
    }

    /// Returns whether the limit is fixed, so that waiting does not raise it.
    pub(crate) fn is_firm(&self) -> bool {
        self.kind != LimitKind::Available
    }

    /// Returns the limits in the files below `root`.
    fn in_system(root: &Path) -> Vec<Self> {
        let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();
        let memory = read("proc/meminfo");
        let limits = read("proc/self/limits");
        let groups = read("proc/self/cgroup");
        let mut found = machine(&memory);
        found.extend(control_group(root, &groups).map(|bytes| Self::new(LimitKind::ControlGroup, bytes)));
        let process_limits =
            [("Max address space", LimitKind::AddressSpace), ("Max data size", LimitKind::Data)];
        for (name, kind) in process_limits {
            found.extend(soft_limit(&limits, name).map(|bytes| Self::new(kind, bytes)));
        }
        found
    }
}

/// Parses `/proc/meminfo`, with lines such as `MemTotal:  24689764 kB`.
fn machine(text: &str) -> Vec<MemoryLimit> {
    let field = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let swap = |name: &str| field(name).unwrap_or(0);
    let total = field("MemTotal").map(|bytes| bytes + swap("SwapTotal"));
    let free = field("MemAvailable").map(|bytes| bytes + swap("SwapFree"));
    let kinds = [(LimitKind::Machine, total), (LimitKind::Available, free)];
    kinds.into_iter().filter_map(|(kind, bytes)| Some(MemoryLimit::new(kind, bytes?))).collect()
}

/// Returns the soft limit in a row of `/proc/self/limits`; `None` if it is `unlimited`.
fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|line| line.strip_prefix(name))?;
    row.split_whitespace().next()?.parse().ok()
}

/// Returns the lowest limit of the control groups in `/proc/self/cgroup` and of their parents. Lines have the form
/// `0::/path` in version 2 and `4:memory:/path` in version 1. In a container, the path may be the path on the host,
/// while the container's own group is mounted as the root.
fn control_group(root: &Path, groups: &str) -> Option<u64> {
    let mut lowest = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mount = root.join(mount);
        let mut group: Option<PathBuf> = Some(mount.join(path.trim_start_matches('/')));
        while let Some(folder) = group.filter(|folder| folder.starts_with(&mount)) {
            let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
            // A group without a limit has the value `max`, or in version 1 an unrealistically large number.
            let bytes = text.trim().parse().ok().filter(|&bytes: &u64| bytes < 1 << 60);
            lowest = [lowest, bytes].into_iter().flatten().min();
            group = folder.parent().map(Path::to_path_buf);
        }
    }
    lowest
}

/// Formats a number of bytes in MiB or GiB, as `1.2 GiB` or `340 MiB`.
pub fn bytes_in_words(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    match mib {
        mib if mib >= 10_240.0 => format!("{:.0} GiB", mib / 1024.0),
        mib if mib >= 1000.0 => format!("{:.1} GiB", mib / 1024.0),
        mib => format!("{mib:.0} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the limits of a system with these files: `/proc` and the control groups.
    fn system(files: &[(&str, &str)]) -> Vec<MemoryLimit> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        MemoryLimit::in_system(folder.path())
    }

    fn limit(kind: LimitKind, bytes: u64) -> MemoryLimit {
        MemoryLimit::new(kind, bytes)
    }

    #[test]
    fn limits_of_machine_and_process_are_read() {
        let memory = "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:  1024 kB\nSwapTotal: 512 kB\nSwapFree: 0 kB\n";
        let limits = "Limit      Soft Limit   Hard Limit   Units\nMax data size             unlimited            unlimited            bytes\n\
                      Max address space         3072000000           unlimited            bytes\n";
        let found = system(&[("proc/meminfo", memory), ("proc/self/limits", limits)]);
        let expected = [
            limit(LimitKind::Machine, 2560 << 10),
            limit(LimitKind::Available, 1024 << 10),
            limit(LimitKind::AddressSpace, 3_072_000_000),
        ];
        assert_eq!(found, expected);
        assert_eq!(system(&[]), []);
    }

    #[test]
    fn ranks_of_a_computer_share_its_memory() {
        let machine = limit(LimitKind::Machine, 4 << 30).shared_by(4);
        assert_eq!((machine.bytes, machine.ranks), (1 << 30, 4));
        assert_eq!(machine.to_string(), "the machine has 4.0 GiB, with swap space for 4 ranks");
        let data = limit(LimitKind::Data, 4 << 30);
        assert_eq!(data.clone().shared_by(4), data);
    }

    #[test]
    fn the_lowest_control_group_is_used() {
        let group = |bytes| vec![limit(LimitKind::ControlGroup, bytes)];
        let second = [
            ("proc/self/cgroup", "0::/job/step\n"),
            ("sys/fs/cgroup/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/job/memory.max", "1000\n"),
        ];
        assert_eq!(system(&second), group(1000));
        let first = [
            ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/b\n"),
            // The path is a path of the host; in the container, the group is the root.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n"),
            ("sys/fs/cgroup/cpu/a/memory.limit_in_bytes", "1\n"),
        ];
        assert_eq!(system(&first), group(2000));
        let none = [
            ("proc/self/cgroup", "4:memory:/\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(system(&none), []);
    }
}
