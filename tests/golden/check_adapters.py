#!/usr/bin/env python3
"""Puts adapters that bert-model wrote onto their encoder, by the libraries they are meant for, and compares.

    python tests/golden/check_adapters.py FOLDER

In: FOLDER/base (an encoder and a classifier), FOLDER/batch.safetensors, and a folder FOLDER/FORM with `adapter/` and
`expected.safetensors` for each of seq_bn, double_seq_bn, par_bn, lora and fusion, as the test `adapter_libraries` of bert-model
writes them. Out: a line per comparison, exit code 1 at the first difference; and an adapter of the library's own, with random
weights, as FOLDER/FORM/theirs with the logits in FOLDER/FORM/theirs.safetensors.

`adapters` 1.3 wants transformers 4.57.
"""

import pathlib
import sys

import adapters
import torch
from adapters.composition import Fuse
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification

TOLERANCE = 1e-5


def close(name, got, expected):
    # A fusion's key bias adds the same to all scores, so its gradient is rounding alone.
    least = 1.0 if name.endswith("key.bias") else 0.0
    error = ((got - expected).abs().max() / expected.abs().max().clamp(min=least)).item()
    print(f"{name}: greatest difference {error:.1e} of its scale")
    assert got.shape == expected.shape and error <= TOLERANCE, name


def randomize(model, own):
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if own(name):
            parameter.data = torch.empty_like(parameter).normal_(0, 0.3, generator=generator)


def main():
    root = pathlib.Path(sys.argv[1])
    file = load_file(root / "batch.safetensors")
    names = {"input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}
    batch = {theirs: file[ours].long() for ours, theirs in names.items()}

    def encoder():
        return BertForSequenceClassification.from_pretrained(root / "base").eval()

    def check(form, model, tensor_name):
        """Logits, and the gradient of their sum by the batch's weights."""
        expected = load_file(root / form / "expected.safetensors")
        logits = model(**batch).logits
        close(f"{form} logits", logits, expected.pop("logits"))
        model.zero_grad()
        (logits * file["weights"]).sum().backward()
        found = {tensor_name(name): p.grad for name, p in model.named_parameters() if p.grad is not None}
        for name, gradient in expected.items():
            close(f"{form} {name}", found[name], gradient)

    def write(form, model):
        with torch.no_grad():
            save_file({"logits": model(**batch).logits}, root / form / "theirs.safetensors")

    for form in ["seq_bn", "double_seq_bn", "par_bn"]:
        model = encoder()
        adapters.init(model)
        name = model.load_adapter(str(root / form / "adapter"), use_safetensors=True, set_active=True)
        assert name == "rte"
        model.train_adapter("rte")
        check(form, model.eval(), lambda name: name)
        own = encoder()
        adapters.init(own)
        own.add_adapter("own", config=adapters.AdapterConfig.load(form, reduction_factor=4), set_active=True)
        randomize(own, lambda name: ".adapters.own." in name)
        own.save_adapter(str(root / form / "theirs"), "own", use_safetensors=True)
        write(form, own.eval())

    model = encoder()
    adapters.init(model)
    for name in ["one", "two"]:
        model.load_adapter(str(root / "fusion/adapter/adapters" / name), use_safetensors=True, with_head=False)
    model.load_adapter_fusion(str(root / "fusion/adapter"), use_safetensors=True, set_active=True)
    model.train_adapter_fusion(Fuse("one", "two"))
    check("fusion", model.eval(), lambda name: name)
    expected = load_file(root / "fusion/regularization.safetensors")["regularization"]
    regularization = model.base_model.get_fusion_regularization_loss().detach().reshape(1)
    close("fusion regularization", regularization, 0.01 * expected)
    randomize(model, lambda name: ".adapter_fusion_layer." in name)
    theirs = root / "fusion/theirs"
    model.save_adapter_fusion(str(theirs), "one,two", use_safetensors=True)
    (theirs / "adapters").mkdir()
    for name in ["one", "two"]:
        model.save_adapter(str(theirs / "adapters" / name), name, use_safetensors=True)
    write("fusion", model.eval())

    model = PeftModel.from_pretrained(encoder(), root / "lora/adapter", is_trainable=True).eval()
    check("lora", model, lambda name: name.replace(".default", ""))
    config = LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=5, target_modules=["query", "value"])
    own = get_peft_model(encoder(), config).eval()
    randomize(own, lambda name: "lora_" in name)
    own.save_pretrained(root / "lora/theirs")
    write("lora", own)


main()
