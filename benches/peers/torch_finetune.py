"""The fine-tuning step in PyTorch, as a peer of benches/finetune_step.rs.

The same work: BERT with a classifier of two labels, dropout 0.1, forward + backward + clip + AdamW, on one
synthetic batch of padded pairs.

    python benches/peers/torch_finetune.py --model mini --batch-size 32 --steps 10 [--threads 2]
"""

import torch
from transformers import BertForSequenceClassification

import torch_peer


def main():
    args = torch_peer.parser().parse_args()
    config, before_mib = torch_peer.start(args)
    model = BertForSequenceClassification(config).train()
    optimizer = torch_peer.adamw(model.parameters(), lr=2e-5)
    classify = torch_peer.compiled(args, model)
    batch = torch_peer.padded_batch(args.batch_size, args.seq_length)
    labels = torch.randint(0, 2, (args.batch_size,))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch_peer.autocast(args):
            loss = torch.nn.functional.cross_entropy(classify(**batch).logits.float(), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    torch_peer.report(args, before_mib, step)


if __name__ == "__main__":
    main()
