"""The pre-training step in PyTorch, as a peer of benches/pretrain_step.rs.

The same work: BERT with the masked-LM head on the masked positions only, next-sentence head, dropout 0.1,
forward + backward + clip + AdamW, on one synthetic batch.

    python benches/peers/torch_pretrain.py --model mini --batch-size 32 --steps 20 [--precision bf16] [--compile] [--threads 2]
"""

import torch
from transformers import BertForPreTraining

import torch_peer


def main():
    args = torch_peer.parser().parse_args()
    config, before_mib = torch_peer.start(args)
    model = BertForPreTraining(config).train()
    optimizer = torch_peer.adamw(model.parameters(), lr=1e-4)
    bert = torch_peer.compiled(args, model.bert)
    predictions = torch_peer.compiled(args, model.cls.predictions)
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
        with torch_peer.autocast(args):
            output = bert(input_ids=ids, attention_mask=mask, token_type_ids=segments)
            gathered = output.last_hidden_state.reshape(b * s, config.hidden_size)[flat]
            words = predictions(gathered)
            pairs = model.cls.seq_relationship(output.pooler_output)
            loss = torch.nn.functional.cross_entropy(words.float(), labels)
            loss = loss + torch.nn.functional.cross_entropy(pairs.float(), next_sentence)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    torch_peer.report(args, before_mib, step)


if __name__ == "__main__":
    main()
