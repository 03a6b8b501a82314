"""Evaluation in PyTorch, as a peer of benches/evaluate.rs: forward only, in inference mode.

`--task classifier`: the logits of two labels. `--task pretraining`: loss and accuracy of both heads, the
masked-LM head on the masked positions only.

    python benches/peers/torch_evaluate.py --task classifier --model mini --batch-size 32 --steps 10
"""

import torch
from transformers import BertForPreTraining, BertForSequenceClassification

import torch_peer


def classifier(args, config):
    model = BertForSequenceClassification(config).eval()
    classify = torch_peer.compiled(args, model)
    batch = torch_peer.padded_batch(args.batch_size, args.seq_length)
    return lambda: classify(**batch).logits.argmax(-1).tolist()


def pretraining(args, config):
    model = BertForPreTraining(config).eval()
    b, s, p = args.batch_size, args.seq_length, args.predictions
    batch = torch_peer.padded_batch(b, s)
    lengths = torch_peer.varied_lengths(b, s)
    positions = [row * s + 1 + i % (lengths[row] - 1) for row in range(b) for i in range(p)]
    flat = torch.tensor(positions)
    labels = torch.randint(1000, 30000, (b * p,))
    next_sentence = torch.randint(0, 2, (b,))

    bert = torch_peer.compiled(args, model.bert)
    predictions = torch_peer.compiled(args, model.cls.predictions)

    def scores(logits, labels):
        loss = torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum")
        return loss.item(), (logits.argmax(-1) == labels).sum().item()

    def step():
        output = bert(**batch)
        gathered = output.last_hidden_state.reshape(b * s, config.hidden_size)[flat]
        words = predictions(gathered)
        pairs = model.cls.seq_relationship(output.pooler_output)
        return scores(words, labels), scores(pairs, next_sentence)

    return step


def main():
    parser = torch_peer.parser()
    parser.add_argument("--task", default="classifier", choices=["classifier", "pretraining"])
    args = parser.parse_args()
    config, before_mib = torch_peer.start(args)
    step = (classifier if args.task == "classifier" else pretraining)(args, config)
    with torch.inference_mode(), torch_peer.autocast(args):
        torch_peer.report(args, before_mib, step)


if __name__ == "__main__":
    main()
