#!/usr/bin/env python3
"""Runs graphs that `bert export --format onnx` wrote and compares them with transformers.

    python tests/golden/check_onnx.py GRAPHS MODELS

In: GRAPHS/NAME/model.onnx, and the model folders MODELS/NAME in Hugging Face's format. Needs onnxruntime, torch and
transformers. Out: a line per output, exit code 1 if a difference is above 1e-5 of the scale of the output (f32) or
1e-2 (names that end with -f16). Every graph runs with two sizes of batch and length.
"""

import pathlib
import sys

import numpy
import onnxruntime
import torch
from transformers import (
    AutoConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

CLASSES = {
    cls.__name__: cls
    for cls in [
        BertForMaskedLM,
        BertForQuestionAnswering,
        BertForSequenceClassification,
        BertForTokenClassification,
        BertModel,
    ]
}


def batch(rows, length, vocab):
    generator = torch.Generator().manual_seed(rows * length)
    ids = torch.randint(5, vocab, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, length // 2 :] = 0
    segments = (torch.arange(length) >= length // 3).long().expand(rows, length)
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": segments * mask}


@torch.no_grad()
def check(graph, model):
    session = onnxruntime.InferenceSession(str(graph / "model.onnx"))
    cls = CLASSES[session.get_modelmeta().custom_metadata_map["class"]]
    config = AutoConfig.from_pretrained(model)
    reference = cls.from_pretrained(model).double().eval()
    tolerance = 1e-2 if graph.name.endswith("-f16") else 1e-5
    for rows, length in [(1, 7), (3, config.max_position_embeddings)]:
        inputs = batch(rows, length, config.vocab_size)
        expected = reference(**inputs)
        got = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        for output, values in zip(session.get_outputs(), got):
            want = getattr(expected, output.name).numpy()
            real = inputs["attention_mask"].bool().numpy()
            per_token = want.ndim == 3 or cls is BertForQuestionAnswering
            values, want = (values[real], want[real]) if per_token else (values, want)
            error = numpy.abs(values - want).max() / numpy.abs(want).max()
            print(f"{graph.name} {output.name} {rows}x{length}: greatest difference {error:.1e} of its scale")
            assert values.shape == want.shape and error <= tolerance, output.name


def main():
    graphs, models = map(pathlib.Path, sys.argv[1:])
    for graph in sorted(graphs.iterdir()):
        check(graph, models / graph.name.removesuffix("-f16"))


if __name__ == "__main__":
    main()
