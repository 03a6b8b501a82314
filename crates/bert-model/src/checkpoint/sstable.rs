//! Reads an SSTable, the file format of LevelDB's tables. The `.index` file of a TensorFlow checkpoint is one.
//!
//! # Format
//!
//! All integers are little-endian. A *varint* has 7 bits in each byte, the lowest first; the top bit is set in all
//! bytes but the last. Source: `table_format.md` of LevelDB and `tensorflow/core/lib/io/format.cc`.
//!
//! ```text
//! file    = data block*, metaindex block, index block, footer
//! footer  = handle of the metaindex block, handle of the index block, zeros up to 40 bytes, magic number (8 bytes)
//! handle  = offset (varint), length (varint)      of a block, without its trailer
//! block   = entry*, restart (4 bytes)*, number of restarts (4 bytes)
//! trailer = compression (1 byte: 0 none, 1 Snappy), checksum (4 bytes: masked CRC-32C of block and compression)
//! entry   = shared (varint), unshared (varint), value length (varint), key suffix, value
//! ```
//!
//! A key consists of the first `shared` bytes of the preceding key and a suffix of `unshared` bytes. Keys are in
//! ascending order. An entry of the index block has the handle of a data block as its value. A restart is the offset of
//! an entry whose key is stored whole, and allows a binary search. This reader reads all entries in order and needs
//! only the number of restarts. A checksum `c` is stored as `((c >> 15) | (c << 17)) + 0xa282ead8`.

/// Maximum length of a file in bytes: fifty times the index of BERT-large with the optimizer's variables.
pub(crate) const MAX_TABLE_BYTES: u64 = 4 << 20;

/// Maximum length of all blocks in bytes, uncompressed.
const MAX_UNCOMPRESSED: usize = 16 << 20;

/// Maximum length of a key in bytes.
const MAX_KEY: usize = 512;

/// Maximum number of entries.
const MAX_ENTRIES: usize = 50_000;

const FOOTER: usize = 48;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// An entry of a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// Returns all entries of a table, in ascending order of their keys.
///
/// # Errors
/// Returns a text that describes the damage.
pub(crate) fn read_sstable(file: &[u8]) -> Result<Vec<Entry>, String> {
    let footer = file.len().checked_sub(FOOTER).ok_or("it is shorter than the footer of a table")?;
    let (blocks, footer) = file.split_at(footer);
    if footer[40..] != MAGIC.to_le_bytes() {
        return Err("it does not end with the magic number of a table".into());
    }
    let mut handles = Cursor(&footer[..40]);
    Handle::read(&mut handles)?; // the metaindex, which TensorFlow leaves empty
    let mut table = Table { blocks, uncompressed: 0 };
    let index = table.entries(Handle::read(&mut handles)?)?;
    let mut entries: Vec<Entry> = Vec::new();
    for block in index {
        entries.extend(table.entries(Handle::read(&mut Cursor(&block.value))?)?);
        if entries.len() > MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} entries"));
        }
    }
    if entries.windows(2).all(|pair| pair[0].key < pair[1].key) {
        Ok(entries)
    } else {
        Err("its keys are not in ascending order".into())
    }
}

/// Returns the masked CRC-32C of the concatenated parts.
pub(crate) fn masked_crc(parts: &[&[u8]]) -> u32 {
    let crc = parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The unread rest of a byte slice.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// Fails if fewer than `count` bytes are left.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("a field is longer than the data")?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes a varint.
    ///
    /// # Errors
    /// Fails if the varint has more than 64 bits or is incomplete.
    pub(crate) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits".into())
    }

    /// Takes a varint that is a length.
    ///
    /// # Errors
    /// Fails as [`Self::varint`] does, and if the length does not fit in a `usize`.
    pub(crate) fn length(&mut self) -> Result<usize, String> {
        usize::try_from(self.varint()?).map_err(|_| "a length is too large".to_string())
    }
}

/// The position of a block in the file.
#[derive(Clone, Copy)]
struct Handle {
    offset: usize,
    length: usize,
}

impl Handle {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, String> {
        Ok(Self { offset: cursor.length()?, length: cursor.length()? })
    }
}

struct Table<'a> {
    /// The file without its footer.
    blocks: &'a [u8],
    /// Total length of the blocks read so far, uncompressed.
    uncompressed: usize,
}

impl Table<'_> {
    /// Returns the entries of a block.
    fn entries(&mut self, handle: Handle) -> Result<Vec<Entry>, String> {
        let block = self.block(handle)?;
        let (_, restarts) = block
            .split_last_chunk::<4>()
            .map(|(rest, n)| (rest, u32::from_le_bytes(*n)))
            .ok_or("a block is too short")?;
        let end = (restarts as usize).checked_mul(4).and_then(|bytes| (block.len() - 4).checked_sub(bytes));
        let mut data = Cursor(&block[..end.ok_or("a block has more restarts than bytes")?]);
        let mut entries = Vec::new();
        let mut key = Vec::new();
        while !data.0.is_empty() {
            let [shared, unshared, value] = [data.length()?, data.length()?, data.length()?];
            if shared > key.len() || unshared > MAX_KEY || shared + unshared > MAX_KEY {
                return Err(format!("a key has more than {MAX_KEY} bytes, or continues no key before it"));
            }
            key.truncate(shared);
            key.extend_from_slice(data.take(unshared)?);
            entries.push(Entry { key: key.clone(), value: data.take(value)?.to_vec() });
            if entries.len() > MAX_ENTRIES {
                return Err(format!("a block has more than {MAX_ENTRIES} entries"));
            }
        }
        Ok(entries)
    }

    /// Returns a block, verified and uncompressed.
    fn block(&mut self, Handle { offset, length }: Handle) -> Result<Vec<u8>, String> {
        let outside = || format!("a block of {length} bytes at {offset} is outside of the file");
        let start = self.blocks.get(offset..).ok_or_else(outside)?;
        let (stored, rest) = start.split_at_checked(length).ok_or_else(outside)?;
        let (trailer, _) = rest.split_first_chunk::<5>().ok_or_else(outside)?;
        let [compression, crc @ ..] = trailer;
        if masked_crc(&[stored, &[*compression]]) != u32::from_le_bytes(*crc) {
            return Err(format!("the checksum of the block at {offset} is wrong"));
        }
        let mut add = |length: usize| {
            self.uncompressed = self.uncompressed.saturating_add(length);
            if self.uncompressed > MAX_UNCOMPRESSED {
                Err(format!("its blocks have more than {MAX_UNCOMPRESSED} bytes"))
            } else {
                Ok(())
            }
        };
        match compression {
            0 => add(stored.len()).map(|()| stored.to_vec()),
            1 => {
                add(snap::raw::decompress_len(stored).map_err(|e| e.to_string())?)?;
                snap::raw::Decoder::new().decompress_vec(stored).map_err(|e| e.to_string())
            }
            other => Err(format!("the block at {offset} has the unknown compression {other}")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn varint(mut n: usize, out: &mut Vec<u8>) {
        while n >= 0x80 {
            out.push(n as u8 | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
    }

    /// Appends a block and returns its handle. Each key is stored without the bytes that it shares with the key before
    /// it.
    fn push_block(file: &mut Vec<u8>, entries: &[(&[u8], &[u8])], compressed: bool) -> Vec<u8> {
        let (mut block, mut before): (Vec<u8>, &[u8]) = (Vec::new(), &[]);
        for (key, value) in entries {
            let shared = key.iter().zip(before).take_while(|(a, b)| a == b).count();
            for n in [shared, key.len() - shared, value.len()] {
                varint(n, &mut block);
            }
            block.extend_from_slice(&key[shared..]);
            block.extend_from_slice(value);
            before = key;
        }
        block.extend([0, 0, 0, 0, 1, 0, 0, 0]);
        if compressed {
            block = snap::raw::Encoder::new().compress_vec(&block).unwrap();
        }
        let mut handle = Vec::new();
        varint(file.len(), &mut handle);
        varint(block.len(), &mut handle);
        let compression = u8::from(compressed);
        file.extend_from_slice(&block);
        file.push(compression);
        file.extend(masked_crc(&[&block, &[compression]]).to_le_bytes());
        handle
    }

    /// Returns a table with one data block.
    pub(crate) fn table(entries: &[(&[u8], &[u8])], compressed: bool) -> Vec<u8> {
        let mut file = Vec::new();
        let data = push_block(&mut file, entries, compressed);
        let meta = push_block(&mut file, &[], false);
        let index = push_block(&mut file, &[(b"z", &data)], false);
        let mut footer = [meta, index].concat();
        footer.resize(40, 0);
        file.extend(footer);
        file.extend(MAGIC.to_le_bytes());
        file
    }

    #[test]
    fn table_returns_its_entries() {
        let pairs: [(&[u8], &[u8]); 3] = [(b"", b"header"), (b"bert/a", b"1"), (b"bert/b", b"")];
        let expected: Vec<Entry> =
            pairs.iter().map(|(key, value)| Entry { key: key.to_vec(), value: value.to_vec() }).collect();
        for compressed in [false, true] {
            assert_eq!(read_sstable(&table(&pairs, compressed)).unwrap(), expected);
        }
    }

    #[test]
    fn every_flipped_byte_of_a_block_is_found() {
        let good = table(&[(b"a", b"1"), (b"ab", b"2")], false);
        for at in 0..good.len() - FOOTER {
            let mut bad = good.clone();
            bad[at] ^= 1;
            // The metaindex is not read, so a flipped byte in it changes nothing.
            if let Ok(entries) = read_sstable(&bad) {
                assert_eq!(entries, read_sstable(&good).unwrap(), "byte {at}");
            }
        }
        for length in 0..good.len() {
            read_sstable(&good[..length]).unwrap_err();
        }
    }

    #[test]
    fn unsorted_and_long_keys_are_refused() {
        let sorted = read_sstable(&table(&[(b"b", b""), (b"a", b"")], false)).unwrap_err();
        assert!(sorted.contains("ascending"), "{sorted}");
        let long = read_sstable(&table(&[(&[b'k'; MAX_KEY + 1], b"")], false)).unwrap_err();
        assert!(long.contains("more than 512 bytes"), "{long}");
    }
}
