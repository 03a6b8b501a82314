"""Ray and Spark make the bytes that one process makes. Needs pyarrow, pandas, ray[data] and pyspark."""

import hashlib
import os
import pathlib
import sys

import bert_data
import pytest

EXAMPLES = str(pathlib.Path(__file__).parents[1] / "examples")
sys.path.insert(0, EXAMPLES)
# For the workers.
os.environ["PYTHONPATH"] = EXAMPLES
os.environ["PYSPARK_PYTHON"] = sys.executable

WORDS = "the a one two red blue old new cat dog house tree river stone sings runs sleeps falls".split()
PARTS = 4


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """Options of a build of a small text of made-up sentences, in seven files."""
    folder = tmp_path_factory.mktemp("text")
    vocab = folder / "vocab.txt"
    vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    state = 1
    for file in range(7):
        lines = []
        for document in range(40):
            for sentence in range(6):
                words = []
                for word in range(9):
                    state = (state * 1103515245 + 12345) % 2**31
                    words.append(WORDS[(state >> 16) % len(WORDS)])
                lines.append(" ".join(words))
            lines.append("")
        (folder / f"text-{file}.txt").write_text("\n".join(lines))
    inputs = [str(path) for path in sorted(folder.glob("text-*.txt"))]
    return dict(input=inputs, vocab=str(vocab), dupe_factor=3, num_shards=5, max_seq_length=32)


def digests(folder):
    names = sorted(path.name for path in pathlib.Path(folder).iterdir())
    assert names == [".lock", "README.md", "manifest.json"] + [f"train-{n:05}-of-00005.parquet" for n in range(5)] + ["vocab.txt"]
    return [hashlib.sha256((pathlib.Path(folder) / name).read_bytes()).hexdigest() for name in names if name.endswith(".parquet")]


def plain(parts, output, **options):
    for stage in "tokenize", "shards":
        for task in bert_data.plan(stage, parts, output=output, **options):
            assert bert_data.run(task)["part"] == task["part"]
    return bert_data.commit(output)


@pytest.fixture(scope="session")
def expected(text, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("one") / "data")
    assert plain(1 + 1, folder, **text)["instances"] > 500
    return digests(folder)


def test_any_number_of_parts(text, expected, tmp_path):
    plain(PARTS, str(tmp_path / "data"), **text)
    assert digests(tmp_path / "data") == expected


def test_a_part_may_run_twice(text, expected, tmp_path):
    options = dict(text, output=str(tmp_path / "data"))
    for stage in "tokenize", "shards":
        for task in bert_data.plan(stage, PARTS, **options) * 2:
            bert_data.run(task)
    bert_data.commit(options["output"])
    assert digests(tmp_path / "data") == expected


def test_held_out_documents_do_not_depend_on_parts(text, tmp_path):
    def shards(parts):
        folder = tmp_path / f"data-{parts}"
        plain(parts, str(folder), hold_out="10%", **text)
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*.parquet")}

    found = shards(PARTS)
    assert any(name.startswith("held-out/") for name in found)
    assert shards(2) == found


def test_ray(text, expected, tmp_path):
    ray = pytest.importorskip("ray")
    import with_ray

    ray.init(num_cpus=2, include_dashboard=False)
    try:
        with_ray.build(PARTS, str(tmp_path / "data"), **text)
    finally:
        ray.shutdown()
    assert digests(tmp_path / "data") == expected


def test_spark(text, expected, tmp_path):
    pyspark = pytest.importorskip("pyspark.sql")
    import with_spark

    spark = pyspark.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        with_spark.build(spark, PARTS, str(tmp_path / "data"), **text)
    finally:
        spark.stop()
    assert digests(tmp_path / "data") == expected


def test_errors_say_whether_to_try_again(text, tmp_path):
    with pytest.raises(bert_data.BuildError, match="missing.txt: this input does not exist") as missing:
        task = bert_data.plan("tokenize", 2, **dict(text, output=str(tmp_path / "data"), input=["missing.txt"]))[0]
        bert_data.run(task)
    assert missing.value.exit_code == 2
    with pytest.raises(ValueError, match="dupe_factr"):
        bert_data.plan("tokenize", 2, dupe_factr=3)
    # So short a text is the first part's alone, and is not there yet.
    shards = bert_data.plan("shards", 2, **dict(text, output=str(tmp_path / "data")))
    with pytest.raises(OSError, match="part 1 of 2"):
        bert_data.run(shards[1])
