//! Names one part of a build (`--part I --parts N`) and its files.
//!
//! Each part has its own work folder, lock and, at the end, receipt. They are hidden in the shared output folder, next
//! to the shards. The reference leaves parts to the user, who gives each one its own files and seed.

use bert_storage::LOCK;

/// One part of a build; part 1 of 1 is the whole build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Number of this part, from 1.
    pub(crate) index: usize,
    /// Number of parts.
    pub(crate) count: usize,
}

impl Part {
    /// The whole build.
    pub(crate) const WHOLE: Self = Self { index: 1, count: 1 };

    pub(crate) fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Returns whether this part makes the shard, or tokenizes the text segment, with this number.
    pub(crate) fn has(self, number: usize) -> bool {
        self.for_segment(number) == self
    }

    /// Returns the part that tokenizes a segment of the text.
    pub(crate) fn for_segment(self, segment: usize) -> Self {
        Self { index: segment % self.count + 1, count: self.count }
    }

    fn suffix(self) -> String {
        format!("-{:05}-of-{:05}", self.index, self.count)
    }

    pub(crate) fn work_name(self) -> String {
        if self.is_whole() { ".build".to_owned() } else { format!(".build{}", self.suffix()) }
    }

    pub(crate) fn lock_name(self) -> String {
        format!("{LOCK}{}", self.suffix())
    }

    pub(crate) fn receipt_name(self) -> String {
        format!(".part{}.json", self.suffix())
    }
}

/// The owner of a hidden name in an output folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The folder as a whole.
    Folder,
    /// The work folder of a build, or of a part.
    Work(Part),
    /// The receipt of a part.
    Receipt(Part),
    /// The lock of a part.
    Lock(Part),
}

/// Returns the owner of a name, or `None` if it is not a hidden name of a build.
pub(crate) fn owner_of(name: &str) -> Option<Owner> {
    let part = |rest: &str| {
        let (index, count) = rest.strip_prefix('-')?.split_once("-of-")?;
        let number = |text: &str| (text.len() == 5).then(|| text.parse::<usize>().ok()).flatten();
        Some(Part { index: number(index)?, count: number(count)? })
    };
    if name == LOCK {
        return Some(Owner::Folder);
    }
    if name == Part::WHOLE.work_name() {
        return Some(Owner::Work(Part::WHOLE));
    }
    if let Some(rest) = name.strip_prefix(".build") {
        return part(rest).map(Owner::Work);
    }
    if let Some(rest) = name.strip_prefix(".part") {
        return part(rest.strip_suffix(".json")?).map(Owner::Receipt);
    }
    part(name.strip_prefix(LOCK)?).map(Owner::Lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_again() {
        let part = Part { index: 2, count: 40 };
        assert_eq!(owner_of(&part.work_name()), Some(Owner::Work(part)));
        assert_eq!(owner_of(&part.lock_name()), Some(Owner::Lock(part)));
        assert_eq!(owner_of(&part.receipt_name()), Some(Owner::Receipt(part)));
        assert_eq!(owner_of(&Part::WHOLE.work_name()), Some(Owner::Work(Part::WHOLE)));
        assert_eq!(owner_of(".lock"), Some(Owner::Folder));
        for other in
            ["train-00000-of-00001.parquet", ".part-1-of-2.json", ".buildx", ".part-00001-of-00002", "x"]
        {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }

    #[test]
    fn every_shard_is_in_one_part() {
        for count in 1..6 {
            for shard in 0..20 {
                let owners = (1..=count).filter(|&index| Part { index, count }.has(shard)).count();
                assert_eq!(owners, 1);
            }
        }
    }
}
