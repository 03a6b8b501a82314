//! Vocabularies.

use std::fs;

use super::{BUILD, check};
use crate::common::Folder;

#[test]
fn damaged_vocabularies_are_rejected() {
    let folder = Folder::with_data();
    let good = folder.text("vocab.txt");
    folder.write("twice.txt", good.clone() + "[CLS]\n");
    folder.write("blanks.txt", "\n");
    folder.write("latin1.txt", [good.as_bytes(), b"caf\xe9\n"].concat());
    folder.write("nul.txt", "\0\0\0\0");
    folder.write("lower.txt", good.to_lowercase());
    fs::File::create(folder.at("large.txt")).expect("a file").set_len(1 << 30).expect("a sparse file");
    let checked = check(
        &folder,
        &format!("{BUILD} --input train.txt --output out --vocab"),
        &[
            ("twice.txt", 3, "twice.txt:...: token \"[CLS]\" is already on line 3"),
            ("blanks.txt", 3, "blanks.txt: the vocabulary is empty"),
            ("latin1.txt", 3, "latin1.txt:...: the vocabulary is not valid UTF-8"),
            ("nul.txt", 3, "nul.txt: the vocabulary (1 tokens) has no [UNK]"),
            ("lower.txt", 3, "lower.txt: the vocabulary (... tokens) has no [UNK]"),
            ("large.txt", 1, "cannot read vocabulary large.txt: it is larger than 67108864 bytes"),
        ],
    );
    assert_eq!(checked, 6);
}
