#!/usr/bin/env python3
"""Makes TensorFlow checkpoints like those of google-research/bert.

    python tests/golden/make_tensorflow_goldens.py [FOLDER]

In: FOLDER/parts (import/parts next to this script), which make_import_goldens.py makes. A separate script, because torch
and tensorflow cannot be imported together. Out:

    google/             bert_config.json, vocab.txt and bert_model.ckpt.*, written by tf.compat.v1.train.Saver: the
                        variables of google-research/bert and of its optimizer
    google-sharded/     the same weights in f16 and two data files, without vocab.txt
"""

import json
import os
import pathlib
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy
import safetensors.numpy
import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent


def google_name(name):
    """The variable of google-research/bert of a tensor, and whether it is transposed."""
    fixed = {
        "cls.predictions.bias": "cls/predictions/output_bias",
        "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
        "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    }
    if name in fixed:
        return fixed[name], False
    stem, last = name.rsplit(".", 1)
    path = stem.replace("layer.", "layer_").replace(".", "/")
    if path.endswith("LayerNorm"):
        return f"{path}/{'gamma' if last == 'weight' else 'beta'}", False
    if path.endswith("_embeddings"):
        return path, False
    return (f"{path}/kernel", True) if last == "weight" else (f"{path}/bias", False)


def save(state, path):
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        for variable, values in state.items():
            tf.compat.v1.get_variable(variable, initializer=values)
            for slot in ["adam_m", "adam_v"] if "embeddings" not in variable else []:
                tf.compat.v1.get_variable(f"{variable}/{slot}", initializer=numpy.zeros_like(values))
        tf.compat.v1.train.get_or_create_global_step()
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        saver.save(session, str(path / "bert_model.ckpt"), write_meta_graph=False, write_state=False)


def save_in_two_files(state, path):
    """Two parts, written separately and merged, as a Saver with sharded=True does on two machines."""
    names = sorted(state)
    parts = []
    for at, part in enumerate([names[: len(names) // 2], names[len(names) // 2 :]]):
        parts.append(str(path / f"part-{at}"))
        tensors = [tf.constant(state[name].astype(numpy.float16)) for name in part]
        slices = [""] * len(part)
        tf.raw_ops.SaveV2(prefix=parts[-1], tensor_names=part, shape_and_slices=slices, tensors=tensors)
    target = str(path / "bert_model.ckpt")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=target, delete_old_dirs=False)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "import")
    state = {}
    for file in sorted((root / "parts").glob("*.safetensors")):
        for name, values in safetensors.numpy.load_file(file).items():
            variable, transposed = google_name(name)
            state[variable] = numpy.ascontiguousarray(values.T if transposed else values)
    config = json.loads((root / "encoder" / "config.json").read_text())
    vocab = (root / "masked-lm" / "vocab.txt").read_text()
    for name, write in [("google", save), ("google-sharded", save_in_two_files)]:
        path = root / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        keys = sorted(key for key in config if key.endswith(("_size", "_prob", "_embeddings", "_act", "_range")))
        keys += ["num_attention_heads", "num_hidden_layers"]
        text = {key: config[key] for key in keys if key != "tie_word_embeddings"}
        (path / "bert_config.json").write_text(json.dumps(text, indent=2) + "\n")
        write(state, path)
    (root / "google" / "vocab.txt").write_text(vocab)
    (root / "google" / "birth.json").write_text(json.dumps({"tensorflow": tf.__version__}) + "\n")


if __name__ == "__main__":
    main()
