//! Simulates a power cut: synced data is kept; other data is kept, lost or corrupted, depending on a seed.
//!
//! Each operation is executed on the real folder and recorded in a model of the durable disk contents: the bytes of a
//! file after its fsync, and a name after the fsync of its folder. Any subset of the unsynced name changes survives,
//! each change as a whole. Unsynced bytes survive completely, as a prefix, as zeros, or not at all. This is harsher
//! than any single journaling file system; POSIX allows it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bert_random::{Domain, Random, Stream};
use bert_storage::{Disk, Durable, FileSystem};

/// The amount of unsynced data that survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything: a kill of the process rather than a power cut.
    Everything,
    /// All names, but no bytes: the files are empty.
    NamesOnly,
    /// A random subset of the name changes, and parts of the bytes; decided by this seed.
    Random(u64),
}

/// A folder whose power fails before operation `cut`, counted from 1; that operation and all later ones fail.
#[derive(Clone, Debug)]
pub struct PowerCut {
    root: PathBuf,
    disk: Arc<Mutex<Model>>,
}

#[derive(Debug)]
struct Model {
    nodes: Vec<Node>,
    /// Name changes that no fsync has made durable, oldest first.
    pending: Vec<Change>,
    operations: u64,
    cut: u64,
}

#[derive(Debug)]
enum Node {
    File { durable: Vec<u8>, current: Vec<u8> },
    Folder { durable: BTreeMap<OsString, usize>, current: BTreeMap<OsString, usize> },
}

/// Names that are set (to a node) or removed (`None`) together, each in a folder.
#[derive(Debug)]
struct Change(Vec<(usize, OsString, Option<usize>)>);

const ROOT: usize = 0;

impl PowerCut {
    /// Creates a simulation below `root`, whose current contents are durable.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub fn over(root: &Path, cut: u64) -> io::Result<Self> {
        let mut model = Model { nodes: Vec::new(), pending: Vec::new(), operations: 0, cut };
        model.scan(root)?;
        Ok(Self { root: root.to_owned(), disk: Arc::new(Mutex::new(model)) })
    }

    /// Returns whether the power has failed.
    pub fn is_off(&self) -> bool {
        let model = self.model();
        model.operations >= model.cut
    }

    /// Ends the simulation and leaves the folder as a machine would find it after the power cut.
    ///
    /// # Errors
    /// Fails if the folder cannot be written.
    pub fn restart(self, survival: Survival) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        let mut model = self.model();
        let seed = if let Survival::Random(seed) = survival { seed } else { 0 };
        let mut random = Stream::new(seed, Domain::Test, &[model.operations]);
        model.settle(|_| match survival {
            Survival::Nothing => false,
            Survival::Everything | Survival::NamesOnly => true,
            Survival::Random(_) => random.chance(0.5),
        });
        model.write_out(ROOT, &self.root, survival, &mut random)
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.disk.lock().expect("no test continues after a panic")
    }

    /// Counts an operation; fails if the power is off.
    fn step(&self) -> io::Result<MutexGuard<'_, Model>> {
        let mut model = self.model();
        if model.operations < model.cut {
            model.operations += 1;
        }
        if model.operations >= model.cut { Err(io::Error::other("the power is off")) } else { Ok(model) }
    }

    fn relative<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.root).expect("a path below the root of the power cut")
    }

    /// Returns the node of a path's parent folder, and the path's name in it.
    fn locate(&self, model: &Model, path: &Path) -> (usize, OsString) {
        let relative = self.relative(path);
        let folder =
            model.find(relative.parent().unwrap_or(Path::new(""))).expect("the parent folder exists");
        (folder, relative.file_name().expect("not the root").to_owned())
    }

    /// Removes a name and everything below it.
    fn remove(&self, path: &Path, remove: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut model = self.step()?;
        remove(path)?;
        let (folder, name) = self.locate(&model, path);
        if let Some(node) = model.entry(folder, &name) {
            model.unlink_all(node);
        }
        model.change(vec![(folder, name, None)]);
        Ok(())
    }

    fn open(&self, model: &mut Model, path: &Path) -> usize {
        let (folder, name) = self.locate(model, path);
        if let Some(node) = model.entry(folder, &name) {
            return node;
        }
        model.nodes.push(Node::File { durable: Vec::new(), current: Vec::new() });
        let node = model.nodes.len() - 1;
        model.change(vec![(folder, name, Some(node))]);
        node
    }
}

impl Model {
    fn scan(&mut self, path: &Path) -> io::Result<usize> {
        let number = self.nodes.len();
        if !path.is_dir() {
            let bytes = fs::read(path)?;
            self.nodes.push(Node::File { durable: bytes.clone(), current: bytes });
            return Ok(number);
        }
        self.nodes.push(Node::Folder { durable: BTreeMap::new(), current: BTreeMap::new() });
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            found.insert(entry.file_name(), self.scan(&entry.path())?);
        }
        self.nodes[number] = Node::Folder { durable: found.clone(), current: found };
        Ok(number)
    }

    fn entry(&self, folder: usize, name: &OsStr) -> Option<usize> {
        match &self.nodes[folder] {
            Node::Folder { current, .. } => current.get(name).copied(),
            Node::File { .. } => None,
        }
    }

    fn find(&self, path: &Path) -> Option<usize> {
        path.iter().try_fold(ROOT, |folder, name| self.entry(folder, name))
    }

    fn change(&mut self, edits: Vec<(usize, OsString, Option<usize>)>) {
        for (folder, name, node) in &edits {
            if let Node::Folder { current, .. } = &mut self.nodes[*folder] {
                set(current, name, *node);
            }
        }
        self.pending.push(Change(edits));
    }

    /// Makes the changes accepted by `keep` durable, oldest first, and removes them from the pending changes.
    fn settle(&mut self, mut keep: impl FnMut(&Change) -> bool) {
        for change in std::mem::take(&mut self.pending) {
            if !keep(&change) {
                self.pending.push(change);
                continue;
            }
            for (folder, name, node) in &change.0 {
                if let Node::Folder { durable, .. } = &mut self.nodes[*folder] {
                    set(durable, name, *node);
                }
            }
        }
    }

    fn write_out(&self, node: usize, path: &Path, survival: Survival, random: &mut Stream) -> io::Result<()> {
        match &self.nodes[node] {
            Node::File { durable, current } => fs::write(path, survivor(durable, current, survival, random)),
            Node::Folder { durable, .. } => {
                fs::create_dir_all(path)?;
                durable
                    .iter()
                    .try_for_each(|(name, &node)| self.write_out(node, &path.join(name), survival, random))
            }
        }
    }

    /// Records the changes that remove everything below a folder.
    fn unlink_all(&mut self, folder: usize) {
        let entries: Vec<(OsString, usize)> = match &self.nodes[folder] {
            Node::Folder { current, .. } => {
                current.iter().map(|(name, &node)| (name.clone(), node)).collect()
            }
            Node::File { .. } => return,
        };
        for (name, node) in entries {
            self.unlink_all(node);
            self.change(vec![(folder, name, None)]);
        }
    }
}

fn set(names: &mut BTreeMap<OsString, usize>, name: &OsStr, node: Option<usize>) {
    match node {
        Some(node) => names.insert(name.to_owned(), node),
        None => names.remove(name),
    };
}

/// Returns the bytes of a file after the power cut.
fn survivor(durable: &[u8], current: &[u8], survival: Survival, random: &mut Stream) -> Vec<u8> {
    if durable == current {
        return current.to_vec();
    }
    match survival {
        Survival::Everything => current.to_vec(),
        Survival::Nothing => durable.to_vec(),
        Survival::NamesOnly if current.starts_with(durable) => durable.to_vec(),
        Survival::NamesOnly => Vec::new(),
        Survival::Random(_) => match random.below(4) {
            0 => durable.to_vec(),
            1 => current.to_vec(),
            // A file that only grows keeps its durable bytes.
            2 if current.starts_with(durable) => {
                let more = random.below(current.len() - durable.len() + 1);
                current[..durable.len() + more].to_vec()
            }
            2 => current[..random.below(current.len() + 1)].to_vec(),
            _ if current.starts_with(durable) => {
                let mut bytes = durable.to_vec();
                bytes.resize(current.len(), 0);
                bytes
            }
            _ => vec![0; current.len()],
        },
    }
}

struct CutFile {
    file: Box<dyn Durable>,
    node: usize,
    owner: PowerCut,
}

impl Write for CutFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let mut model = self.owner.step()?;
        self.file.write_all(buffer)?;
        if let Node::File { current, .. } = &mut model.nodes[self.node] {
            current.extend_from_slice(buffer);
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Durable for CutFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut model = self.owner.step()?;
        if let Node::File { durable, current } = &mut model.nodes[self.node] {
            durable.clone_from(current);
        }
        Ok(())
    }
}

impl FileSystem for PowerCut {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
        let mut model = self.step()?;
        let file = Disk.create(path)?;
        let node = self.open(&mut model, path);
        if let Node::File { current, .. } = &mut model.nodes[node] {
            current.clear();
        }
        Ok(Box::new(CutFile { file, node, owner: self.clone() }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Durable>> {
        let mut model = self.step()?;
        let file = Disk.append(path)?;
        let node = self.open(&mut model, path);
        Ok(Box::new(CutFile { file, node, owner: self.clone() }))
    }

    fn open_lock(&self, path: &Path) -> io::Result<File> {
        let mut model = self.step()?;
        let file = Disk.open_lock(path)?;
        self.open(&mut model, path);
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut model = self.step()?;
        Disk.rename(from, to)?;
        let (old, old_name) = self.locate(&model, from);
        let (new, new_name) = self.locate(&model, to);
        let node = model.entry(old, &old_name);
        model.change(vec![(old, old_name, None), (new, new_name, node)]);
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut model = self.step()?;
        let folder = model.find(self.relative(path)).expect("the folder exists");
        model.settle(|change| change.0.iter().any(|(touched, ..)| *touched == folder));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.remove(path, |path| Disk.remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut model = self.step()?;
        Disk.create_dir(path)?;
        let (folder, name) = self.locate(&model, path);
        model.nodes.push(Node::Folder { durable: BTreeMap::new(), current: BTreeMap::new() });
        let node = model.nodes.len() - 1;
        model.change(vec![(folder, name, Some(node))]);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.remove(path, |path| Disk.remove_dir(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.remove(path, |path| Disk.remove_dir_all(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the contents after a file was renamed over another one without fsync: the old ones, the new ones, none,
    /// or zeros, depending on the seed.
    #[test]
    fn careless_writing_loses_data() {
        let mut found = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            fs::write(&path, "old").unwrap();
            let files = PowerCut::over(folder.path(), u64::MAX).unwrap();
            let mut file = files.create(&folder.path().join("b")).unwrap();
            file.write_all(b"new").unwrap();
            drop(file);
            files.rename(&folder.path().join("b"), &path).unwrap();
            files.restart(Survival::Random(seed)).unwrap();
            found.insert(fs::read(&path).unwrap());
        }
        for expected in [&b"old"[..], b"new", b"", b"\0\0\0"] {
            assert!(found.contains(expected), "{expected:?} is not in {found:?}");
        }
    }

    #[test]
    fn synced_data_survives_a_power_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let files = PowerCut::over(folder.path(), 6).unwrap();
        let mut file = files.append(&path).unwrap();
        file.write_all(b"kept").unwrap();
        file.sync().unwrap();
        files.sync_folder(folder.path()).unwrap();
        file.write_all(b" lost").unwrap();
        assert!(!files.is_off());
        assert!(files.remove_file(&path).is_err() && files.is_off());
        files.restart(Survival::Nothing).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn a_removed_folder_may_partly_survive() {
        let mut kept = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let folder = tempfile::tempdir().unwrap();
            let inside = folder.path().join("f");
            fs::create_dir(&inside).unwrap();
            fs::write(inside.join("a"), "a").unwrap();
            fs::write(inside.join("b"), "b").unwrap();
            let files = PowerCut::over(folder.path(), u64::MAX).unwrap();
            files.remove_dir_all(&inside).unwrap();
            files.restart(Survival::Random(seed)).unwrap();
            kept.insert(["a", "b"].map(|name| inside.join(name).exists()));
        }
        assert_eq!(kept.len(), 4, "{kept:?}");
    }
}
