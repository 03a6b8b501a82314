"""What the PyTorch peers share: sizes, options, time and memory. Each peer prints one JSON object."""

import argparse
import json
import statistics
import time

import torch
from transformers import BertConfig

SIZES = {  # layers, hidden
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
WARMUP = 3


def parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mini", choices=SIZES)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seq-length", type=int, default=128)
    parser.add_argument("--predictions", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    parser.add_argument("--threads", type=int, default=0, help="0: what torch chooses")
    return parser


def start(args):
    """The seed, the threads, the configuration, and the memory that the libraries hold."""
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    # All tensors and modules of the peer are made on this device.
    torch.set_default_device(args.device)
    if args.device == "cuda":
        # Products in f32 may use TF32, as in burn.
        torch.set_float32_matmul_precision("high")
    layers, hidden = SIZES[args.model]
    config = BertConfig(
        vocab_size=30522,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        num_labels=2,
        attn_implementation="sdpa",
    )
    return config, status_mib("VmRSS")


def compiled(args, module):
    return torch.compile(module) if args.compile else module


def adamw(parameters, lr):
    """The optimizer in its fastest form."""
    return torch.optim.AdamW(parameters, lr=lr, eps=1e-6, weight_decay=0.01, fused=True)


def autocast(args):
    return torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16")


def varied_lengths(batch, seq):
    """Tokens of each row, 24 to 116 with mean 70 for 128 places, as benches/finetune_step.rs has them."""
    return [(24 + i * 37 % 93) * seq // 128 for i in range(batch)]


def padded_batch(batch, seq):
    """Ids, segments and mask of pairs with `varied_lengths`, padded to `seq`."""
    lengths = torch.tensor(varied_lengths(batch, seq))[:, None]
    places = torch.arange(seq)[None, :]
    mask = (places < lengths).long()
    ids = torch.randint(1000, 30000, (batch, seq)) * mask
    segments = (places >= lengths // 2).long() * mask
    return dict(input_ids=ids, token_type_ids=segments, attention_mask=mask)


def report(args, before_mib, step):
    for _ in range(WARMUP):
        step()
    seconds = []
    cpu = time.process_time()
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    median = statistics.median_high(seconds)
    result = {
        "program": f"torch {torch.__version__} {args.device} {args.precision}{' compiled' if args.compile else ''}",
        "seconds": median,
        "sequences_per_second": args.batch_size / median,
        "cpu_seconds": (time.process_time() - cpu) / args.steps,
        "peak_mib": status_mib("VmHWM"),
        "before_mib": before_mib,
    }
    print(json.dumps(result))


def status_mib(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
    raise KeyError(key)
