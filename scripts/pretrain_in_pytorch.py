#!/usr/bin/env python3
"""Runs the first steps of a pre-training in PyTorch, from the initial weights that `bert init` writes.

It shows that the initialization, not the trainer, decides how a small run begins: the held-out loss falls as it does in
`pretrain`. Data are folders of `make-pretrain-data --columns hf`. Needs torch, transformers and pyarrow.

    bert init --initialization bigram --data data/ --model tiny --output fresh/
    python scripts/pretrain_in_pytorch.py fresh/ data/ held-out/ --steps 1000 --learning-rate 1e-3

The same recipe here: `pretrain --init-checkpoint fresh/ --adam-bias-correction true --schedule linear ...`. Order of the
instances and dropout are other draws, so the curves agree but not their digits.
"""

import argparse
import glob
import json
import os
import time

import pyarrow.parquet as pq
import torch
from transformers import BertForPreTraining

COLUMNS = ["input_ids", "token_type_ids", "attention_mask", "labels", "next_sentence_label"]


def read(folder, most=None):
    """Returns the columns of a data folder as tensors, `[instances, length]`."""
    parts, rows = {name: [] for name in COLUMNS}, 0
    for path in sorted(glob.glob(os.path.join(folder, "*.parquet"))):
        table = pq.read_table(path, columns=COLUMNS)
        for name in COLUMNS:
            column = table[name].combine_chunks()
            flat = column.flatten() if hasattr(column, "flatten") and name != "next_sentence_label" else column
            values = torch.from_numpy(flat.to_numpy(zero_copy_only=False).copy()).long()
            parts[name].append(values.reshape(len(table), -1))
        rows += len(table)
        if most and rows >= most:
            break
    data = {name: torch.cat(tensors)[:most] for name, tensors in parts.items()}
    data["next_sentence_label"] = data["next_sentence_label"].reshape(-1)
    return data


def losses(model, batch):
    """Returns the sum of the masked-LM losses, their number, and the mean next-sentence loss."""
    output = model.bert(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], token_type_ids=batch["token_type_ids"]
    )
    masked = batch["labels"] != -100
    words = model.cls.predictions(output.last_hidden_state[masked])
    masked_lm = torch.nn.functional.cross_entropy(words, batch["labels"][masked], reduction="sum")
    pairs = model.cls.seq_relationship(output.pooler_output)
    return masked_lm, int(masked.sum()), torch.nn.functional.cross_entropy(pairs, batch["next_sentence_label"])


@torch.no_grad()
def evaluate(model, data, batch_size):
    model.eval()
    total = targets = 0
    for start in range(0, len(data["input_ids"]), batch_size):
        nll, n, _ = losses(model, {name: values[start : start + batch_size] for name, values in data.items()})
        total, targets = total + nll.item(), targets + n
    model.train()
    return total / targets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("init", help="folder of bert init")
    parser.add_argument("data", help="folder of make-pretrain-data --columns hf")
    parser.add_argument("held_out", help="the same, other documents")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--warmup-steps", type=int)
    parser.add_argument("--adam-beta2", type=float, default=0.999)
    parser.add_argument("--eval-every", type=int, default=250)
    parser.add_argument("--eval-instances", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bf16", action="store_true", help="autocast products to bf16")
    parser.add_argument("--compile", action="store_true", help="torch.compile the encoder; its first steps compile")
    args = parser.parse_args()
    warmup = args.steps // 10 if args.warmup_steps is None else args.warmup_steps

    torch.manual_seed(args.seed)
    model = BertForPreTraining.from_pretrained(args.init).train()
    data, held_out = read(args.data), read(args.held_out, args.eval_instances)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.learning_rate, betas=(0.9, args.adam_beta2), eps=1e-6, fused=True)

    def rate(step):
        return step / warmup if step < warmup else (args.steps - step) / max(1, args.steps - warmup)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    order = torch.randperm(len(data["input_ids"]))
    if args.compile:
        model.bert = torch.compile(model.bert)
    seconds = 0.0
    for step in range(args.steps + 1):
        if step % args.eval_every == 0 or step == args.steps:
            loss = evaluate(model, held_out, args.batch_size)
            done = {"step": step, "masked_lm_loss": round(loss, 4), "training_seconds": round(seconds, 1)}
            print(json.dumps(done), flush=True)
        if step == args.steps:
            break
        started = time.perf_counter()
        rows = order[torch.arange(step * args.batch_size, (step + 1) * args.batch_size) % len(order)]
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            masked_lm, n, next_sentence = losses(model, {name: values[rows] for name, values in data.items()})
        optimizer.zero_grad(set_to_none=True)
        (masked_lm / max(1, n) + next_sentence).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        seconds += time.perf_counter() - started


if __name__ == "__main__":
    main()
