//! JSON Lines and Parquet: files that are not tables, tables without text, and sizes that exceed the memory.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int32Array, ListArray, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use serde_json::json;

use super::{BUILD, check, limited};
use crate::common::Folder;

#[test]
fn damaged_json_lines_are_rejected() {
    let folder = Folder::with_data();
    folder.write("deep.jsonl", format!("{}{}\n", "[".repeat(100_000), "]".repeat(100_000)));
    folder.write(
        "deep-value.jsonl",
        format!("{{\"text\": \"a\", \"x\": {}1{}}}\n", "[".repeat(500), "]".repeat(500)),
    );
    folder.write("array.jsonl", "[{\"text\": \"a\"}]\n");
    folder.write("null.jsonl", "{\"text\": \"a b\"}\n{\"text\": null}\n");
    folder.write("number.jsonl", "{\"text\": 7}\n");
    folder.write("missing.jsonl", "{\"body\": \"a\"}\n");
    folder.write("surrogate.jsonl", "{\"text\": \"\\ud800\"}\n");
    folder.write("half.jsonl", "{\"text\": \"a\n");
    check(
        &folder,
        &format!("{BUILD} --vocab vocab.txt --output out --input"),
        r#"
        3 | deep.jsonl | deep.jsonl:1: not a JSON object (expected one object per line): ...
        3 | deep-value.jsonl | no instance can be built: the only document has 1 sentence(s)...
        3 | array.jsonl | no instance can be built: the only document has 1 sentence(s)...
        3 | null.jsonl --strict-rows | null.jsonl:2: "text" is null, which --strict-rows rejects (see --text-column)
        3 | null.jsonl | no instance can be built: the only document has 1 sentence(s)...
        3 | number.jsonl | number.jsonl:1: "text" is a number, expected text (see --text-column)
        3 | missing.jsonl | missing.jsonl:1: "text" is missing (keys: body) (see --text-column)
        3 | surrogate.jsonl | the input has no text: 1 file(s), 1 line(s), no tokens
        3 | half.jsonl | half.jsonl:1: not a JSON object (expected one object per line): ...
        "#,
    );
}

/// Returns a Parquet file with one text column that contains nulls.
fn parquet(name: &str, texts: ArrayRef, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable([(name, texts, true)]).expect("a batch");
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).expect("a level"));
    let properties = properties.set_compression(zstd).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("in memory");
    writer.into_inner().expect("in memory")
}

/// Returns a file that ends with these bytes as its footer.
fn with_footer(footer: &[u8]) -> Vec<u8> {
    [b"PAR1", footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

/// Returns a folder with Parquet files that are damaged, have no text, or claim more than they contain.
fn with_damaged_parquet() -> Folder {
    let folder = Folder::with_data();
    let plain = || WriterProperties::builder().set_dictionary_enabled(false);
    let texts = |texts: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(texts)) };
    let good = parquet("text", texts(vec![Some("A river."), Some("A sea.")]), plain());
    folder.write("text.parquet", "not at all");
    folder.write("short.parquet", "PAR1");
    folder.write("footer.parquet", b"PAR1\0\0\0\0\xff\xff\xff\x7fPAR1");
    folder.write("cut.parquet", &good[..good.len() - 9]);
    folder.write("other.parquet", parquet("title", texts(vec![Some("A river.")]), plain()));
    folder.write("numbers.parquet", parquet("text", Arc::new(Int32Array::from(vec![1, 2])), plain()));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    folder.write("lists.parquet", parquet("text", Arc::new(lists), plain()));
    folder.write("null.parquet", parquet("text", texts(vec![Some("A river."), None]), plain()));
    folder.write("latin1.parquet", {
        let mut bytes = parquet("text", texts(vec![Some("Caf\u{e9} one two three")]), plain());
        // Stored uncompressed: such a short text does not become shorter.
        let at = bytes.windows(2).position(|pair| pair == "\u{e9}".as_bytes()).expect("the text");
        bytes[at] = b'\xff';
        bytes
    });
    // A row longer than the maximum text; a page larger than the maximum; a repeated row.
    let long = "so it goes on ".repeat((65 << 20) / 14);
    folder.write("row.parquet", parquet("text", texts(vec![Some(&long)]), plain()));
    let large = plain().set_data_page_size_limit(1 << 30).set_write_batch_size(5);
    folder.write("page.parquet", parquet("text", texts(vec![Some(&long); 5]), large));
    let again = WriterProperties::builder().set_dictionary_page_size_limit(1 << 30);
    folder.write("bomb.parquet", parquet("text", texts(vec![Some(&long[..4 << 20]); 40]), again));
    // Footers with false counts: two billion row groups, and a list in a list in a list.
    folder.write("groups.parquet", with_footer(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0]));
    folder.write("deep.parquet", with_footer(&[0x19; 100_000]));
    // A column nested sixty thousand times.
    let column = b"\x48\x01a\x15\x02\x00".repeat(60_000);
    folder.write("nested.parquet", with_footer(&[b"\x29\xfc\xe0\xd4\x03", &column[..], b"\0"].concat()));
    // One column that claims to contain six hundred million values.
    let one = b"\x48\x01a\x15\x80\x98\x9a\xbc\x04\x00";
    folder.write("children.parquet", with_footer(&[b"\x29\x1c", &one[..], b"\0"].concat()));
    folder
}

#[test]
fn damaged_parquet_is_rejected() {
    let folder = with_damaged_parquet();
    check(
        &folder,
        &format!("{BUILD} --vocab vocab.txt --output out --strict-rows --input"),
        r#"
        3 | text.parquet | text.parquet: not a Parquet file: it does not begin with PAR1
        3 | short.parquet | short.parquet: cannot be read as Parquet: ...
        3 | footer.parquet | footer.parquet: cannot be read as Parquet: ...
        3 | cut.parquet | cut.parquet: cannot be read as Parquet: ...it does not end with PAR1
        3 | latin1.parquet | latin1.parquet: after row 0: cannot be read as Parquet: ...non UTF-8 data...
        3 | groups.parquet | groups.parquet: cannot be read as Parquet: ...a list of 2147483647 items, but 1 bytes are left
        3 | deep.parquet | deep.parquet: cannot be read as Parquet: ...structs or lists are nested too deeply
        3 | nested.parquet | nested.parquet: cannot be read as Parquet: ...columns nested 65 deep
        3 | children.parquet | children.parquet: cannot be read as Parquet: ...600000000 nested columns, but there are 1 columns in all
        3 | other.parquet | other.parquet: column "text" is missing (columns: title), expected text (see --text-column)
        3 | numbers.parquet | numbers.parquet: column "text" is int32, expected text (see --text-column)
        3 | lists.parquet | lists.parquet: column "text" is list(int32...), expected text (see --text-column)
        3 | null.parquet | null.parquet:2: "text" is null, which --strict-rows rejects (see --text-column)
        3 | row.parquet | row.parquet: row 1 is longer than 67108864 bytes
        3 | page.parquet | page.parquet: cannot be read as Parquet: ...a page has 340787... bytes, more than 268435456; write the file again with smaller pages
        3 | bomb.parquet | bomb.parquet: ... bytes of Parquet expand to ... bytes or more, which text does not do...
        "#,
    );
}

/// Checks that rare but valid files are read: a page of the maximum size, and rows in a large dictionary.
#[test]
fn large_parquet_pages_are_read() {
    let folder = Folder::with_data();
    let long = "So it goes on and on. ".repeat(400);
    let many: Vec<String> = (0..500).map(|at| format!("{long}{at}")).collect();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(many.iter().chain(&many[..20])));
    let one_page =
        WriterProperties::builder().set_dictionary_enabled(false).set_data_page_size_limit(1 << 30);
    let one_page = one_page.set_write_batch_size(1 << 20).set_data_page_row_count_limit(1 << 20);
    folder.write("page.parquet", parquet("text", texts.clone(), one_page));
    let dictionary = WriterProperties::builder().set_dictionary_page_size_limit(1 << 30);
    folder.write("dictionary.parquet", parquet("text", texts, dictionary));
    folder.write("small.jsonl", {
        let rows = many.iter().chain(&many[..20]);
        rows.map(|text| format!("{}\n", json!({ "text": text }))).collect::<String>()
    });
    for input in ["page.parquet", "dictionary.parquet", "small.jsonl"] {
        let line = format!("{BUILD} --vocab vocab.txt --num-shards 1 --input {input} --output {input}.data");
        let ended = limited(&folder, &line);
        assert_eq!(ended.code, Some(0), "{input}: {}", ended.stderr);
        println!("{input}: {} MiB", ended.memory);
        let shard = |input: &str| folder.read(&format!("{input}.data/train-00000-of-00001.parquet"));
        assert!(shard(input) == shard("page.parquet"), "{input}");
    }
}
