#!/usr/bin/env python3
"""Makes the model's goldens with Hugging Face transformers.

    python tests/golden/make_transformers_goldens.py [OUTPUT_FOLDER]

In: nothing but a seed. Out, for each activation (gelu, gelu_new), beside this script:

    ACT/config.json, ACT/model.safetensors   a small BertForPreTraining with random weights
    ACT/pretraining.safetensors              a batch; hidden states, attentions, pooled output, logits,
                                             losses, and the gradient of every parameter
    ACT/classification.safetensors           a classifier on the same encoder: weights, logits, loss,
                                             gradients
    gelu/question_answering.safetensors, token_classification.safetensors, multiple_choice.safetensors
                                             other heads on it: weights, logits, loss, and the gradients of
                                             the head and of the word embeddings
    ACT/trajectory.safetensors               ten steps of the reference's optimizer without dropout: batch,
                                             learning rates, losses, gradient norms, last weights
    gelu/lamb_trajectory.safetensors         the same with timm.optim.Lamb and ten times the learning rates
    birth.json                               versions and sizes

Everything is computed in float64 from float32 weights and rounded to float32 at the end, so that the
goldens are exact to the last bit or so and a comparison measures only the other side's rounding.

The losses are the reference's (run_pretraining.py): sum(w * nll) / (sum(w) + 1e-5) plus the mean of the
next-sentence cross-entropy. So is the optimizer (optimization.py): no bias correction, eps 1e-6 outside
the root, decay 0.01 except for LayerNorm and bias, one global norm over all gradients clipped to 1, the
tied table counted once. LAMB excludes the same parameters from decay, and so from its ratio of norms.
"""

import copy
import json
import pathlib
import platform
import re
import sys

import numpy
import safetensors
import safetensors.torch
import timm.optim
import torch
import transformers
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

SEED = 20181011
BATCH, SEQ, PREDICTIONS, LABELS = 3, 16, 4, 3
STEPS, PEAK, WARMUP = 10, 1e-3, 2
HERE = pathlib.Path(__file__).resolve().parent


def make_config(hidden_act, num_labels=LABELS):
    return BertConfig(
        vocab_size=97,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=56,
        max_position_embeddings=40,
        type_vocab_size=2,
        hidden_act=hidden_act,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.02,
        num_labels=num_labels,
        attn_implementation="eager",
    )


def randomize(model, generator):
    """Weights large enough that every part of the network matters, rounded to float32."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if name.endswith("LayerNorm.weight"):
                value = 1 + 0.2 * noise
            elif parameter.dim() == 1:
                value = 0.1 * noise
            else:
                value = 0.2 * noise
            parameter.copy_(value.float().double())


def make_batch(generator, config):
    def integers(low, high, *shape):
        return torch.randint(low, high, shape, generator=generator)

    lengths = [SEQ, 11, 7]
    mask = torch.zeros(BATCH, SEQ, dtype=torch.int64)
    segments = torch.zeros(BATCH, SEQ, dtype=torch.int64)
    positions = torch.zeros(BATCH, PREDICTIONS, dtype=torch.int64)
    weights = torch.zeros(BATCH, PREDICTIONS, dtype=torch.float64)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
        segments[row, length // 2 : length] = 1
        count = min(PREDICTIONS, length // 3)
        chosen = torch.randperm(length, generator=generator)[:count].sort().values
        positions[row, :count] = chosen
        weights[row, :count] = 1
    return {
        # Id 0 is padding and only padding: PyTorch leaves that row out of the table's gradient.
        "input_ids": integers(5, config.vocab_size, BATCH, SEQ) * mask,
        "input_mask": mask,
        "segment_ids": segments,
        "masked_lm_positions": positions,
        "masked_lm_ids": integers(5, config.vocab_size, BATCH, PREDICTIONS) * weights.long(),
        "masked_lm_weights": weights,
        "next_sentence_labels": torch.tensor([0, 1, 1]),
    }


def run(model, batch, **more):
    return model(
        input_ids=batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
        **more,
    )


def pretraining_losses(output, batch):
    """Logits at the masked places (all of them, padded ones too) and the reference's two losses."""
    flat = (batch["masked_lm_positions"] + SEQ * torch.arange(BATCH)[:, None]).reshape(-1)
    logits = output.prediction_logits.reshape(BATCH * SEQ, -1)[flat]
    ids, weights = batch["masked_lm_ids"].reshape(-1), batch["masked_lm_weights"].reshape(-1)
    nll = -F.log_softmax(logits, dim=-1)[torch.arange(len(ids)), ids]
    masked_lm = (weights * nll).sum() / (weights.sum() + 1e-5)
    next_sentence = F.cross_entropy(
        output.seq_relationship_logits, batch["next_sentence_labels"]
    )
    return flat, logits, masked_lm, next_sentence


def gradients(model):
    named = {f"grad.{name}": p.grad for name, p in model.named_parameters()}
    assert all(g is not None for g in named.values())
    return named


def pretraining_golden(model, batch):
    model.zero_grad()
    output = run(model, batch, output_hidden_states=True, output_attentions=True)
    flat, logits, masked_lm, next_sentence = pretraining_losses(output, batch)
    (masked_lm + next_sentence).backward()
    with torch.no_grad():
        encoded = run(model.bert, batch)
    golden = dict(batch)
    golden["flat_positions"] = flat
    for i, state in enumerate(output.hidden_states):
        golden[f"hidden_states.{i}"] = state
    for i, attention in enumerate(output.attentions):
        golden[f"attentions.{i}"] = attention
    golden["pooled_output"] = encoded.pooler_output
    golden["prediction_logits"] = logits
    golden["seq_relationship_logits"] = output.seq_relationship_logits
    golden["loss.masked_lm"] = masked_lm.reshape(1)
    golden["loss.next_sentence"] = next_sentence.reshape(1)
    golden["loss.total"] = (masked_lm + next_sentence).reshape(1)
    return golden | gradients(model)


def classification_golden(config, encoder, batch, generator):
    model = BertForSequenceClassification(config).double().eval()
    model.bert.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        for parameter in model.classifier.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((0.2 * noise).float().double())
    labels = torch.tensor([2, 0, 1])
    logits = run(model, batch).logits
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    golden = {"labels": labels, "logits": logits, "loss": loss.reshape(1)}
    for name, parameter in model.classifier.named_parameters():
        golden[f"classifier.{name}"] = parameter
    return golden | gradients(model)


def head_golden(model, head, encoder, targets, inputs, generator):
    """A model whose head has random weights: its outputs for `inputs` and its loss for `targets`."""
    model = model.double().eval()
    # Not every head has a pooler before it.
    missing, _ = model.bert.load_state_dict(encoder.state_dict(), strict=False)
    assert not missing
    with torch.no_grad():
        for parameter in getattr(model, head).parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((0.2 * noise).float().double())
    output = model(**inputs, **targets)
    output.loss.backward()
    golden = dict(targets) | {"loss": output.loss.reshape(1)}
    for name in ["logits", "start_logits", "end_logits"]:
        if name in output:
            golden[name] = output[name]
    for name, parameter in getattr(model, head).named_parameters():
        golden[f"{head}.{name}"] = parameter
        golden[f"grad.{head}.{name}"] = parameter.grad
    words = "bert.embeddings.word_embeddings.weight"
    golden[f"grad.{words}"] = dict(model.named_parameters())[words].grad
    return golden


def head_goldens(folder, config, encoder, batch, generator):
    inputs = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["segment_ids"],
    }
    spans = {"start_positions": torch.tensor([3, 0, 5]), "end_positions": torch.tensor([4, 0, 5])}
    two = make_config(config.hidden_act, num_labels=2)
    golden = head_golden(
        BertForQuestionAnswering(two), "qa_outputs", encoder, spans, inputs, generator
    )
    save(folder / "question_answering.safetensors", golden)

    labels = torch.randint(0, LABELS, (BATCH, SEQ), generator=generator)
    # What has no label counts for nothing: padding, and every third token.
    without = (batch["input_mask"] == 0) | (torch.arange(SEQ)[None, :] % 3 == 0)
    labels = {"labels": labels.masked_fill(without, -100)}
    golden = head_golden(
        BertForTokenClassification(config), "classifier", encoder, labels, inputs, generator
    )
    save(folder / "token_classification.safetensors", golden)

    # One question with the rows of the batch as its choices.
    choices = {name: values[None] for name, values in inputs.items()}
    label = {"labels": torch.tensor([1])}
    golden = head_golden(
        BertForMultipleChoice(config), "classifier", encoder, label, choices, generator
    )
    save(folder / "multiple_choice.safetensors", golden)


def learning_rate(step):
    """The reference's: linear from 0 over the warm-up, then on the line to 0 over all steps."""
    if step < WARMUP:
        return PEAK * step / WARMUP
    return PEAK * (1 - min(step, STEPS) / STEPS)


def has_decay(name):
    return not re.search("LayerNorm|layer_norm|bias", name)


class ReferenceAdamW:
    def __init__(self, parameters):
        self.parameters = parameters
        self.m = {name: torch.zeros_like(p) for name, p in parameters.items()}
        self.v = {name: torch.zeros_like(p) for name, p in parameters.items()}

    def step(self, rate, norm):
        clip = 1.0 / max(norm.item(), 1.0)
        m, v = self.m, self.v
        with torch.no_grad():
            for name, p in self.parameters.items():
                g = p.grad * clip
                m[name] = 0.9 * m[name] + 0.1 * g
                v[name] = 0.999 * v[name] + 0.001 * g**2
                update = m[name] / (v[name].sqrt() + 1e-6)
                if has_decay(name):
                    update = update + 0.01 * p
                p -= rate * update


class Lamb:
    def __init__(self, parameters):
        decayed = [p for name, p in parameters.items() if has_decay(name)]
        excluded = [p for name, p in parameters.items() if not has_decay(name)]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": excluded, "weight_decay": 0.0}]
        self.optimizer = timm.optim.Lamb(groups, lr=0.0)

    def step(self, rate, norm):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()


def trajectory_golden(model, batch, make_optimizer, peak_factor):
    parameters = dict(model.named_parameters())  # the tied table once
    optimizer = make_optimizer(parameters)
    rates, losses, norms = [], [], []
    for step in range(STEPS):
        model.zero_grad()
        output = run(model, batch)
        _, _, masked_lm, next_sentence = pretraining_losses(output, batch)
        (masked_lm + next_sentence).backward()
        rate = peak_factor * learning_rate(step)
        norm = torch.sqrt(sum((p.grad**2).sum() for p in parameters.values()))
        optimizer.step(rate, norm)
        rates.append(rate)
        losses.append([(masked_lm + next_sentence).item(), masked_lm.item(), next_sentence.item()])
        norms.append(norm.item())
    golden = dict(batch)
    golden["learning_rates"] = torch.tensor(rates, dtype=torch.float64)
    golden["losses"] = torch.tensor(losses, dtype=torch.float64)
    golden["gradient_norms"] = torch.tensor(norms, dtype=torch.float64)
    for name, parameter in parameters.items():
        golden[f"final.{name}"] = parameter
    return golden


def save(path, tensors):
    def rounded(t):
        t = t.detach().clone()
        return t.float().contiguous() if t.is_floating_point() else t.int().contiguous()

    safetensors.torch.save_file({name: rounded(t) for name, t in tensors.items()}, path)
    path.chmod(0o644)


def make(root, hidden_act):
    folder = root / hidden_act
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(SEED)
    config = make_config(hidden_act)
    model = BertForPreTraining(config).double().eval()
    randomize(model, generator)
    batch = make_batch(generator, config)

    model.float().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    model.double()
    save(folder / "pretraining.safetensors", pretraining_golden(model, batch))
    classification = classification_golden(config, model.bert, batch, generator)
    save(folder / "classification.safetensors", classification)
    if hidden_act == "gelu":
        head_goldens(folder, config, model.bert, batch, generator)
        lamb = trajectory_golden(copy.deepcopy(model), batch, Lamb, 10.0)
        save(folder / "lamb_trajectory.safetensors", lamb)
    save(folder / "trajectory.safetensors", trajectory_golden(model, batch, ReferenceAdamW, 1.0))
    for other in folder.iterdir():
        if other.name not in {
            "config.json",
            "model.safetensors",
            "pretraining.safetensors",
            "classification.safetensors",
            "question_answering.safetensors",
            "token_classification.safetensors",
            "multiple_choice.safetensors",
            "trajectory.safetensors",
            "lamb_trajectory.safetensors",
        }:
            other.unlink()


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    for hidden_act in ["gelu", "gelu_new"]:
        make(root, hidden_act)
    birth = {
        "script": "tests/golden/make_transformers_goldens.py",
        "seed": SEED,
        "computed_in": "float64, rounded to float32",
        "tolerance": "max |a - b| <= 1e-5 max |b| for each tensor, in float32",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "safetensors": safetensors.__version__,
        "numpy": numpy.__version__,
        "timm": timm.__version__,
    }
    (root / "birth.json").write_text(json.dumps(birth, indent=2) + "\n")


if __name__ == "__main__":
    main()
