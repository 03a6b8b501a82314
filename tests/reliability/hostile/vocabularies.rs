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
    check(
        &folder,
        &format!("{BUILD} --input train.txt --output out --vocab"),
        r#"
        3 | twice.txt | twice.txt:...: token "[CLS]" is already on line 3
        3 | blanks.txt | blanks.txt: the vocabulary is empty
        3 | latin1.txt | latin1.txt:...: the vocabulary is not valid UTF-8
        3 | nul.txt | nul.txt: the vocabulary (1 tokens) has no [UNK]
        3 | lower.txt | lower.txt: the vocabulary (... tokens) has no [UNK]
        1 | large.txt | cannot read vocabulary large.txt: it is larger than 67108864 bytes
        "#,
    );
}
