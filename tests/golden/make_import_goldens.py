#!/usr/bin/env python3
"""Makes tiny checkpoints in every published form, with the libraries that published them.

    python tests/golden/make_import_goldens.py [OUTPUT_FOLDER]

In: nothing but a seed. Out, in import/ next to this script, one folder for each form, all with the weights of one BertForPreTraining (hidden size 8, 2 layers):

    pytorch/            pytorch_model.bin of BertForPreTraining, with decoder.weight and position_ids
    pytorch-legacy/     the format before PyTorch 1.6, with the names gamma and beta
    pytorch-parts/      two files and an index; f16
    pytorch-encoder/    BertModel: names without the prefix `bert.`
    parts/              model.safetensors in several files
    f16/, bf16/         model.safetensors in half precision
    masked-lm/, next-sentence/, encoder/, classifier/, untied/
                        model.safetensors of these classes; the decoder of untied/ is another matrix
    expected.safetensors
                        a batch; hidden states, pooled output and the logits of both heads

make_tensorflow_goldens.py makes import/google and import/google-sharded from parts/. The expected values are computed in float64 from the float32 weights. Those of f16 and bf16 have their own names.
"""

import copy
import json
import pathlib
import shutil
import sys

import safetensors.torch
import torch
import transformers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
)

SEED = 20181031
HERE = pathlib.Path(__file__).resolve().parent
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] [unused0] [unused1] the a river flows into sea ##s ##ing . , to".split()
CONFIG = dict(
    vocab_size=60,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
    type_vocab_size=2,
    hidden_act="gelu",
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    initializer_range=0.02,
)


def vocabulary():
    return WORDS + [chr(code) for code in range(ord("a") + 1, ord("z") + 1)] + [
        f"##{chr(code)}" for code in range(ord("a"), ord("q"))
    ]


def make_model():
    torch.manual_seed(SEED)
    model = BertForPreTraining(BertConfig(**CONFIG)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
        for name, parameter in model.named_parameters():
            if name.endswith("LayerNorm.weight"):
                parameter.add_(1.0)
    model.tie_weights()
    return model


def batch():
    generator = torch.Generator().manual_seed(SEED)
    ids = torch.randint(5, CONFIG["vocab_size"], (3, 12), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    mask[2, 5:] = 0
    segments = (torch.arange(12) >= 6).long().expand(3, 12).contiguous()
    return dict(input_ids=ids * mask, attention_mask=mask, token_type_ids=segments * mask)


@torch.no_grad()
def expected(model, suffix=""):
    model = copy.deepcopy(model).double()
    inputs = batch()
    encoded = model.bert(**inputs)
    output = model(**inputs)
    values = {
        "sequence_output": encoded.last_hidden_state,
        "pooled_output": encoded.pooler_output,
        "prediction_logits": output.prediction_logits,
        "seq_relationship_logits": output.seq_relationship_logits,
    }
    return {name + suffix: value.float().contiguous() for name, value in values.items()}


def folder(root, name, config=True, vocab=True, architecture=None):
    path = root / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    if config:
        text = dict(CONFIG, architectures=[architecture or "BertForPreTraining"], model_type="bert")
        (path / "config.json").write_text(json.dumps(text, indent=2) + "\n")
    if vocab:
        (path / "vocab.txt").write_text("".join(word + "\n" for word in vocabulary()))
    return path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "import")
    model = make_model()
    state = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    half = copy.deepcopy(model).half().float()
    brain = copy.deepcopy(model).bfloat16().float()
    decoder = {
        "cls.predictions.decoder.weight": state["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": state["cls.predictions.bias"],
    }

    full = torch.nn.Module.state_dict(model)
    position_ids = {"bert.embeddings.position_ids": torch.arange(CONFIG["max_position_embeddings"])[None]}
    full.update(decoder)
    full.update(position_ids)
    torch.save(full, folder(root, "pytorch", vocab=False) / "pytorch_model.bin")

    old = type(full)()
    for name, tensor in {**state, **decoder}.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        old[name] = torch.nn.Parameter(tensor) if "pooler" in name else tensor
    path = folder(root, "pytorch-legacy", vocab=False)
    torch.save(old, path / "pytorch_model.bin", _use_new_zipfile_serialization=False)

    path = folder(root, "pytorch-parts", vocab=False)
    names = sorted(state)
    weight_map = {}
    for at, part in enumerate([names[: len(names) // 2], names[len(names) // 2 :]], 1):
        file = f"pytorch_model-{at:05}-of-00002.bin"
        torch.save({name: state[name].half() for name in part}, path / file)
        weight_map.update({name: file for name in part})
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (path / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")

    path = folder(root, "pytorch-encoder", vocab=False, architecture="BertModel")
    torch.save(model.bert.state_dict(), path / "pytorch_model.bin")

    path = folder(root, "parts", vocab=False)
    model.save_pretrained(path, max_shard_size=4000)
    assert len(list(path.glob("*.safetensors"))) > 1

    for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16)]:
        path = folder(root, name, vocab=False)
        copy.deepcopy(model).to(dtype).save_pretrained(path)

    for name, cls in [
        ("masked-lm", BertForMaskedLM),
        ("next-sentence", BertForNextSentencePrediction),
        ("encoder", BertModel),
        ("classifier", BertForSequenceClassification),
    ]:
        other = cls(BertConfig(**CONFIG, num_labels=3 if name == "classifier" else 2))
        own = other.state_dict()
        for key in own:
            for known in [key, f"bert.{key}"]:
                if known in state:
                    own[key] = state[known]
        other.load_state_dict(own)
        other.save_pretrained(folder(root, name, vocab=name == "masked-lm"))

    path = folder(root, "untied", vocab=False)
    other = torch.randn(CONFIG["vocab_size"], CONFIG["hidden_size"], generator=torch.Generator().manual_seed(1))
    tensors = {**state, "cls.predictions.decoder.weight": other}
    safetensors.torch.save_file(tensors, path / "model.safetensors", {"format": "pt"})
    text = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**text, "tie_word_embeddings": False}, indent=2) + "\n")

    inputs = batch()
    tensors = {
        "input_ids": inputs["input_ids"].int(),
        "input_mask": inputs["attention_mask"].int(),
        "segment_ids": inputs["token_type_ids"].int(),
        **expected(model),
        **expected(half, "_f16"),
        **expected(brain, "_bf16"),
    }
    safetensors.torch.save_file(tensors, root / "expected.safetensors")
    versions = {"torch": torch, "transformers": transformers}
    versions = {name: module.__version__ for name, module in versions.items()}
    (root / "birth.json").write_text(json.dumps({"seed": SEED, "versions": versions}, indent=2) + "\n")


if __name__ == "__main__":
    main()
