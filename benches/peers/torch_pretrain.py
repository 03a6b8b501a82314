"""The pre-training step in PyTorch, as a peer of benches/pretrain_step.rs.

The same work: BERT with the masked-LM head on the masked positions only, next-sentence head, dropout 0.1,
forward + backward + clip + AdamW, on one synthetic batch. Prints one JSON object.

    python benches/peers/torch_pretrain.py --model mini --batch-size 32 --steps 20 [--bf16] [--threads 2]
"""

import argparse
import json
import statistics
import time

import torch
from transformers import BertConfig, BertForPreTraining

SIZES = {  # layers, hidden
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mini", choices=SIZES)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seq-length", type=int, default=128)
    parser.add_argument("--predictions", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    layers, hidden = SIZES[args.model]
    config = BertConfig(
        vocab_size=30522,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
    )
    model = BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-6, weight_decay=0.01)
    b, s, p = args.batch_size, args.seq_length, args.predictions
    ids = torch.randint(1000, 30000, (b, s))
    segments = (torch.arange(s) >= s // 2).long().expand(b, s)
    mask = torch.ones(b, s, dtype=torch.long)
    positions = torch.stack([torch.randperm(s - 2)[:p] + 1 for _ in range(b)])
    flat = (torch.arange(b)[:, None] * s + positions).reshape(-1)
    labels = torch.randint(1000, 30000, (b * p,))
    next_sentence = torch.randint(0, 2, (b,))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
            output = model.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments)
            gathered = output.last_hidden_state.reshape(b * s, hidden)[flat]
            words = model.cls.predictions(gathered)
            pairs = model.cls.seq_relationship(output.pooler_output)
            loss = torch.nn.functional.cross_entropy(words.float(), labels)
            loss = loss + torch.nn.functional.cross_entropy(pairs.float(), next_sentence)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    for _ in range(args.warmup):
        step()
    seconds = []
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(
        json.dumps(
            {
                "program": f"torch {torch.__version__}" + (" bf16" if args.bf16 else ""),
                "seconds": median,
                "sequences_per_second": b / median,
            }
        )
    )


if __name__ == "__main__":
    main()
