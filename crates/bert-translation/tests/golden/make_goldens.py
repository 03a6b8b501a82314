"""Writes layers.safetensors and transformer.safetensors: values of the equations of BERT-fused translation in PyTorch.

Run: python make_goldens.py   (torch 2.5 or later and safetensors; f64, stored as f32)

layers.safetensors: forward pass and gradients of one fused encoder layer and one fused decoder layer, written from
equations 4 to 6 of Zhu et al. (ICLR 2020) with matrix products, without torch.nn layers.
transformer.safetensors: torch.nn.Transformer with random weights, its output, its label-smoothed loss, and gradients.
"""

import math

import torch
from safetensors.torch import save_file

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
HIDDEN, BERT, HEADS, INNER, EPS = 16, 24, 2, 40, 1e-5
BATCH, SOURCE, BERT_SEQ, TARGET, VOCAB = 2, 5, 7, 4, 11
saved = {}


def parameter(name, *shape):
    tensor = torch.empty(*shape).uniform_(-0.4, 0.4)
    if name.endswith("LayerNorm.weight"):
        tensor = 1 + tensor
    # The test reads f32, so the values must be f32 here, too.
    tensor = tensor.float().double().requires_grad_()
    saved[name] = tensor
    return tensor


class Attention:
    def __init__(self, name, memory):
        widths = {"query": HIDDEN, "key": memory, "value": memory, "output": HIDDEN}
        for part, width in widths.items():
            setattr(self, part, (parameter(f"{name}.{part}.weight", HIDDEN, width), parameter(f"{name}.{part}.bias", HIDDEN)))

    def __call__(self, x, memory, allowed):
        """allowed: [batch, queries, keys], true where a query may see a key."""
        project = lambda y, p: torch.einsum("bsi,oi->bso", y, p[0]) + p[1]
        q, k, v = project(x, self.query), project(memory, self.key), project(memory, self.value)
        size, heads = HIDDEN // HEADS, []
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = torch.einsum("bqd,bkd->bqk", q[..., part], k[..., part]) / math.sqrt(size)
            weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
            heads.append(torch.einsum("bqk,bkd->bqd", weights, v[..., part]))
        return project(torch.cat(heads, -1), self.output)


class Norm:
    def __init__(self, name):
        self.gamma, self.beta = parameter(f"{name}.LayerNorm.weight", HIDDEN), parameter(f"{name}.LayerNorm.bias", HIDDEN)

    def __call__(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + EPS) * self.gamma + self.beta


class FeedForward:
    def __init__(self, name):
        self.w1, self.b1 = parameter(f"{name}.intermediate.weight", INNER, HIDDEN), parameter(f"{name}.intermediate.bias", INNER)
        self.w2, self.b2 = parameter(f"{name}.output.weight", HIDDEN, INNER), parameter(f"{name}.output.bias", HIDDEN)
        self.norm = Norm(f"{name}.end")

    def __call__(self, x):
        inner = torch.clamp(x @ self.w1.T + self.b1, min=0)
        return self.norm(x + inner @ self.w2.T + self.b2)


def combined(branches, ordinary, bert):
    return {"both": (ordinary + bert) / 2, "ordinary": ordinary, "bert": bert}[branches]


x, y = (parameter(name, BATCH, length, HIDDEN) for name, length in [("input.source", SOURCE), ("input.target", TARGET)])
memory, hidden_bert = parameter("input.encoder", BATCH, SOURCE, HIDDEN), parameter("input.bert", BATCH, BERT_SEQ, BERT)
source_lengths, bert_lengths = [5, 3], [7, 4]
real = lambda lengths, most, queries: torch.tensor([[[k < n for k in range(most)]] * queries for n in lengths])
causal = torch.tril(torch.ones(TARGET, TARGET)).bool().expand(BATCH, TARGET, TARGET)

attention, bert_attention = Attention("encoder.attention.attention", HIDDEN), Attention("encoder.attention.bert_attention", BERT)
end, feed_forward = Norm("encoder.attention.end"), FeedForward("encoder.feed_forward")
own = Attention("decoder.self.attention", HIDDEN)
own_end = Norm("decoder.self.end")
cross, bert_cross = Attention("decoder.cross_attention.attention", HIDDEN), Attention("decoder.cross_attention.bert_attention", BERT)
cross_end, decoder_feed_forward = Norm("decoder.cross_attention.end"), FeedForward("decoder.feed_forward")
weights_encoder = parameter("weights.encoder", BATCH, SOURCE, HIDDEN)
weights_decoder = parameter("weights.decoder", BATCH, TARGET, HIDDEN)
parameters = dict(saved)

for branches in ["both", "ordinary", "bert"]:
    to_source, to_bert = attention(x, x, real(source_lengths, SOURCE, SOURCE)), bert_attention(x, hidden_bert, real(bert_lengths, BERT_SEQ, SOURCE))
    encoded = feed_forward(end(x + combined(branches, to_source, to_bert)))
    s = own_end(y + own(y, y, causal))
    to_encoder, to_bert = cross(s, memory, real(source_lengths, SOURCE, TARGET)), bert_cross(s, hidden_bert, real(bert_lengths, BERT_SEQ, TARGET))
    decoded = decoder_feed_forward(cross_end(s + combined(branches, to_encoder, to_bert)))
    for tensor in parameters.values():
        tensor.grad = None
    ((encoded * weights_encoder).sum() + (decoded * weights_decoder).sum()).backward()
    saved[f"{branches}.encoded"], saved[f"{branches}.decoded"] = encoded, decoded
    for name, tensor in parameters.items():
        if tensor.grad is not None and not name.startswith("weights."):
            saved[f"{branches}.grad.{name}"] = tensor.grad

store = lambda file: save_file({name: tensor.detach().float().contiguous() for name, tensor in saved.items()}, file)
store("layers.safetensors")

# torch.nn.Transformer: post-LN and, as in the paper, without LayerNorm after the last layer.
saved = {}
LAYERS, SMOOTHING = 2, 0.1
options = dict(d_model=HIDDEN, nhead=HEADS, dim_feedforward=INNER, dropout=0.0, activation="relu", layer_norm_eps=EPS, batch_first=True)
encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(**options), LAYERS, enable_nested_tensor=False)
decoder = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(**options), LAYERS)
model = torch.nn.Transformer(d_model=HIDDEN, nhead=HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
source_table, target_table = torch.nn.Embedding(VOCAB, HIDDEN), torch.nn.Embedding(VOCAB + 2, HIDDEN)
output_bias = torch.nn.Parameter(torch.zeros(VOCAB + 2))
everything = [*model.parameters(), *source_table.parameters(), *target_table.parameters(), output_bias]
with torch.no_grad():
    for tensor in everything:
        tensor.copy_(tensor.uniform_(-0.4, 0.4).float().double())


def positions(length):
    table = torch.zeros(length, HIDDEN)
    for p in range(length):
        for i in range(0, HIDDEN, 2):
            table[p, i], table[p, i + 1] = math.sin(p / 10000 ** (i / HIDDEN)), math.cos(p / 10000 ** (i / HIDDEN))
    return table


source = torch.tensor([[1, 5, 9, 2, 3], [4, 4, 10, 0, 0]])
target = torch.tensor([[1, 12, 7, 3], [1, 9, 2, 0]])
labels = torch.tensor([[12, 7, 3, 8], [9, 2, -100, -100]])
padding = source == 0
scale = math.sqrt(HIDDEN)
embedded_source = source_table(source) * scale + positions(SOURCE)
embedded_target = target_table(target) * scale + positions(TARGET)
mask = torch.nn.Transformer.generate_square_subsequent_mask(TARGET, dtype=torch.float64)
hidden = model(embedded_source, embedded_target, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding)
logits = hidden @ target_table.weight.T + output_bias
loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum", label_smoothing=SMOOTHING)
plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
loss.backward()


def published(name):
    """The name of a parameter of torch.nn.Transformer in this crate; None for the fused projections."""
    side, _, layer, rest = name.split(".", 3)
    blocks = {"self_attn": "attention" if side == "encoder" else "self", "multihead_attn": "cross_attention"}
    norms = {"encoder": ["attention", "feed_forward"], "decoder": ["self", "cross_attention", "feed_forward"]}[side]
    first, kind = rest.rsplit(".", 1)
    if first.startswith("norm"):
        block = f"{norms[int(first[4:]) - 1]}.end.LayerNorm"
    elif first in ["linear1", "linear2"]:
        block = "feed_forward." + {"linear1": "intermediate", "linear2": "output"}[first]
    else:
        block = blocks[first.split(".")[0]] + ".attention" + (".output" if first.endswith("out_proj") else "")
    return f"transformer.{side}.{layer}.{block}", kind


for name, tensor in model.named_parameters():
    place, kind = published(name)
    if kind.startswith("in_proj_"):
        parts = zip(["query", "key", "value"], tensor.chunk(3), tensor.grad.chunk(3))
        for part, values, gradient in parts:
            saved[f"{place}.{part}.{kind[8:]}"], saved[f"grad.{place}.{part}.{kind[8:]}"] = values, gradient
    else:
        saved[f"{place}.{kind}"], saved[f"grad.{place}.{kind}"] = tensor, tensor.grad
for name, tensor in {"source_embeddings.weight": source_table.weight, "target_embeddings.weight": target_table.weight, "output_bias": output_bias}.items():
    saved[f"transformer.{name}"], saved[f"grad.transformer.{name}"] = tensor, tensor.grad
saved |= {"logits": logits, "loss": loss[None], "cross_entropy": plain[None]}
store("transformer.safetensors")
