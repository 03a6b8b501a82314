#!/usr/bin/env python3
"""Makes a Flax checkpoint as `FlaxBertForPreTraining.save_pretrained` of transformers 4 does.

    python tests/golden/make_flax_golden.py [FOLDER]

In: FOLDER/parts (import/parts next to this script), which make_import_goldens.py makes. Out: flax/ with config.json and
flax_model.msgpack, written by flax.serialization.to_bytes. transformers 5 has no Flax classes, so the names are from
modeling_flax_bert.py of transformers 4: nested dictionaries with `kernel` (transposed), `scale` and `embedding`.
"""

import json
import pathlib
import shutil
import sys

import safetensors.numpy
from flax.serialization import to_bytes

HERE = pathlib.Path(__file__).resolve().parent


def flax_leaf(name, is_matrix):
    """The last key of an array."""
    if not name.endswith(".weight"):
        return name.rsplit(".", 1)[-1]
    if name.endswith("_embeddings.weight"):
        return "embedding"
    return "kernel" if is_matrix else "scale"


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "import"
    index = json.loads((folder / "parts/model.safetensors.index.json").read_text())
    params = {}
    for file in sorted(set(index["weight_map"].values())):
        for name, tensor in safetensors.numpy.load_file(folder / "parts" / file).items():
            if name.endswith("position_ids") or name.startswith("cls.predictions.decoder"):
                continue
            leaf = flax_leaf(name, tensor.ndim == 2)
            place = params
            for key in name.split(".")[:-1]:
                place = place.setdefault(key, {})
            place[leaf] = tensor.T.copy() if leaf == "kernel" else tensor
    out = folder / "flax"
    out.mkdir(exist_ok=True)
    (out / "flax_model.msgpack").write_bytes(to_bytes(params))
    shutil.copy(folder / "parts/config.json", out / "config.json")


if __name__ == "__main__":
    main()
