"""Compares the answers of `bert predict`, `features` and `fill-mask` with those of other libraries on an exported folder.

usage: parity.py KIND FOLDER TEXTS ANSWERS [GRAPH_FOLDER]

TEXTS is JSON Lines with `text` and, for pairs, `text_b`; ANSWERS is the output of the program. Prints one JSON object:
the largest difference of a score, and the number of other labels, for each library.
"""

import json
import sys

import torch
import transformers
from transformers import AutoTokenizer

transformers.logging.set_verbosity_error()
kind, folder, texts, answers = sys.argv[1:5]
graph = sys.argv[5] if len(sys.argv) > 5 else None
rows = [json.loads(line) for line in open(texts, encoding="utf8")]
ours = [json.loads(line) for line in open(answers, encoding="utf8")]
assert len(rows) == len(ours)
tokenizer = AutoTokenizer.from_pretrained(folder)


def load(name):
    model, info = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    parts = ("bert.pooler.", "cls.seq_relationship.")
    other = [key for key in info["unexpected_keys"] if not key.startswith(parts)]
    assert not other, other
    return model.eval()


def batch_of(row, **extra):
    return tokenizer(row["text"], row.get("text_b"), truncation=True, return_tensors="pt", **extra)


def run_torch(model, names):
    def run(batch):
        with torch.no_grad():
            output = model(**batch)
        return [output[name][0].numpy() for name in names]

    return run


def run_onnx(names):
    import onnxruntime

    session = onnxruntime.InferenceSession(f"{graph}/model.onnx", providers=["CPUExecutionProvider"])
    length = int(session.get_modelmeta().custom_metadata_map["max_length"])
    assert length == tokenizer.model_max_length, (length, tokenizer.model_max_length)

    def run(batch):
        return [value[0] for value in session.run(names, {key: value.numpy() for key, value in batch.items()})]

    return run


def softmax(values):
    return torch.tensor(values).softmax(-1).tolist()


def compare(run):
    worst, other = 0.0, 0
    names = transformers.AutoConfig.from_pretrained(folder).id2label
    for row, our in zip(rows, ours):
        if kind == "questions":
            batch = tokenizer(row["text"], row["text_b"], truncation="only_second", return_tensors="pt")
        elif kind == "tags":
            words = row["text"].split()
            batch = tokenizer(words, is_split_into_words=True, truncation=True, return_tensors="pt")
        else:
            batch = batch_of(row)
        output = run({key: value for key, value in batch.items()})
        if kind == "classes":
            theirs = softmax(output[0])
            worst = max([worst] + [abs(theirs[i] - our["probabilities"][names[i]]) for i in names])
            other += names[max(names, key=lambda i: theirs[i])] != our["label"]
        elif kind == "scores":
            worst = max(worst, abs(float(output[0][0]) - our["score"]))
        elif kind == "tags":
            tags = [names[int(scores.argmax())] for scores in output[0]]
            first = {}
            for position, word in enumerate(batch.word_ids(0)):
                if word is not None:
                    first.setdefault(word, position)
            theirs = [tags[first[word]] if word in first else "O" for word in range(len(words))]
            other += theirs != our["tags"]
        elif kind == "questions":
            start, end = output
            offsets = tokenizer(row["text"], row["text_b"], truncation="only_second", return_offsets_mapping=True)
            second = [i for i, part in enumerate(offsets.sequence_ids(0)) if part == 1]
            spans = [(start[i] + end[j], i, j) for i in second for j in second if i <= j < i + 30]
            _, i, j = max(spans)
            at = offsets["offset_mapping"]
            other += row["text_b"][at[i][0] : at[j][1]] != our["answer"]
        elif kind == "vectors":
            states = torch.tensor(output[0])
            vector = states.mean(0) if row["pooling"] == "mean" else states[0]
            mine = torch.tensor(our["layers"][0]["values"])
            worst = max(worst, (vector - mine).abs().max().item())
        elif kind == "masks":
            at = batch["input_ids"][0].tolist().index(tokenizer.mask_token_id)
            theirs = torch.tensor(output[0][at]).softmax(-1)
            for word in our["masks"][0]["words"]:
                known = theirs[tokenizer.convert_tokens_to_ids(word["word"])].item()
                worst = max(worst, abs(known - word["probability"]))
            other += int(theirs.argmax()) != tokenizer.convert_tokens_to_ids(our["masks"][0]["words"][0]["word"])
    return {"worst": worst, "other": other}


classes = {
    "classes": ("BertForSequenceClassification", ["logits"]),
    "scores": ("BertForSequenceClassification", ["logits"]),
    "tags": ("BertForTokenClassification", ["logits"]),
    "questions": ("BertForQuestionAnswering", ["start_logits", "end_logits"]),
    "vectors": ("BertModel", ["last_hidden_state"]),
    "masks": ("BertForMaskedLM", ["logits"]),
}
found = {}
if kind == "sentences":
    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer(folder, device="cpu").encode([row["text"] for row in rows])
    mine = [our["layers"][0]["values"] for our in ours]
    worst = max(abs(a - b) for one, two in zip(mine, vectors.tolist()) for a, b in zip(one, two))
    found["sentence-transformers"] = {"worst": worst, "other": 0}
elif kind == "cross-encoder":
    from sentence_transformers import CrossEncoder

    scores = CrossEncoder(folder, device="cpu").predict([(row["text"], row["text_b"]) for row in rows])
    worst = max(abs(float(score) - our["score"]) for score, our in zip(scores, ours))
    found["sentence-transformers"] = {"worst": worst, "other": 0}
else:
    name, outputs = classes[kind]
    found["transformers"] = compare(run_torch(load(name), outputs))
    if graph:
        found["onnxruntime"] = compare(run_onnx(outputs))
print(json.dumps(found))
