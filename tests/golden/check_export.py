#!/usr/bin/env python3
"""Loads folders that bert-model wrote with Hugging Face transformers and compares.

    python tests/golden/check_export.py FOLDER

In: FOLDER/{pretraining,classifier,encoder} and FOLDER/expected.safetensors, as the test `export` of
bert-model writes them. Out: a line per comparison, exit code 1 at the first difference; and the same models
saved again as FOLDER/again-CLASS, for the way back.
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
)

TOLERANCE = 1e-5


def close(name, got, expected):
    error = ((got - expected).abs().max() / expected.abs().max()).item()
    print(f"{name}: greatest difference {error:.1e} of its scale")
    assert got.shape == expected.shape and error <= TOLERANCE, name


def load(cls, folder):
    model, info = cls.from_pretrained(folder, output_loading_info=True)
    for kind in ["missing_keys", "unexpected_keys", "mismatched_keys"]:
        assert not info[kind], f"{cls.__name__} {kind}: {info[kind]}"
    return model.eval()


def check_tokenizer(folder, expected):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.is_fast
    pair = tokenizer("Hello worlds!", "café undo xyz", padding="max_length", max_length=12)
    print("tokenizer:", tokenizer.convert_ids_to_tokens(pair["input_ids"]))
    assert pair["input_ids"] == expected.int().tolist(), pair["input_ids"]
    assert pair["token_type_ids"] == [0] * 6 + [1] * 5 + [0]
    assert pair["attention_mask"] == [1] * 11 + [0]
    assert tokenizer.model_max_length == 20
    assert tokenizer.mask_token_id == 4 and tokenizer.pad_token_id == 0
    assert tokenizer("a [MASK] b")["input_ids"] == [2, 1, 4, 1, 3]


@torch.no_grad()
def main():
    root = pathlib.Path(sys.argv[1])
    expected = load_file(root / "expected.safetensors")
    batch = {
        "input_ids": expected["input_ids"].long(),
        "attention_mask": expected["input_mask"].long(),
        "token_type_ids": expected["segment_ids"].long(),
    }
    real = batch["attention_mask"].bool()

    pretraining = load(BertForPreTraining, root / "pretraining")
    output = pretraining(**batch)
    # At padded places the implementations of attention may differ; nothing reads them.
    vocab = output.prediction_logits.shape[-1]
    ours = expected["prediction_logits"].reshape(*real.shape, vocab)
    close("prediction logits", output.prediction_logits[real], ours[real])
    close(
        "seq_relationship logits",
        output.seq_relationship_logits,
        expected["seq_relationship_logits"],
    )

    classifier = load(BertForSequenceClassification, root / "classifier")
    assert classifier.config.id2label == {0: "no", 1: "yes", 2: "maybe"}
    close("classifier logits", classifier(**batch).logits, expected["classifier_logits"])

    encoder = load(AutoModel, root / "encoder")
    output = encoder(**batch)
    close("hidden states", output.last_hidden_state[real], expected["sequence_output"][real])
    close("pooled output", output.pooler_output, expected["pooled_output"])
    # The heads' folder is an encoder's folder as well.
    headless = AutoModel.from_pretrained(root / "pretraining").eval()
    assert torch.equal(
        headless.pooler.dense.weight, pretraining.bert.pooler.dense.weight
    )

    for folder in ["pretraining", "classifier"]:
        check_tokenizer(root / folder, expected["pair_ids"])

    pretraining.save_pretrained(root / "again-BertForPreTraining")
    classifier.save_pretrained(root / "again-BertForSequenceClassification")
    headless.save_pretrained(root / "again-BertModel")
    masked_lm = BertForMaskedLM.from_pretrained(root / "pretraining")
    masked_lm.save_pretrained(root / "again-BertForMaskedLM")


if __name__ == "__main__":
    main()
