"""Writes random predictions with their scores by scikit-learn, scipy, seqeval, conlleval and the official scripts of SQuAD.

Usage: make_metric_goldens.py SCRIPTS [CASES] > metrics.json

SCRIPTS is a folder with conlleval.pl, evaluate-v1.1.py and evaluate-v2.0.py. CASES is the number of cases of each kind [default:
25].
"""

import importlib.util
import json
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import f1_score as entity_f1
from seqeval.metrics import precision_score, recall_score
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, mean_absolute_error, mean_squared_error

warnings.simplefilter("ignore")
SCRIPTS = Path(sys.argv[1])
CASES = int(sys.argv[2]) if len(sys.argv) > 2 else 25
WORDS = ["the", "a", "an", "Mill", "mill,", "harbour-master", "1,204", "theatre", "\u00e9t\u00e9", "Zo\u00eb\u2013Anna", "x_y", "\u4f60\u597d",
         "\u00bd", "\u2167", "(old)", "\u0130zmir", "salt", "pepper."]


def script(name):
    spec = importlib.util.spec_from_file_location(name.replace(".", "_"), SCRIPTS / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def number(value):
    """Returns 0 for an undefined value, as this project does."""
    return float(value) if np.isfinite(value) else 0.0


def classes(rng):
    count = int(rng.integers(2, 5))
    size = int(rng.integers(1, 60))
    labels = rng.integers(0, count, size)
    predictions = np.where(rng.random(size) < 0.5, labels, rng.integers(0, count, size))
    case = {
        "classes": count,
        "labels": labels.tolist(),
        "predictions": predictions.tolist(),
        "accuracy": accuracy_score(labels, predictions),
        "macro_f1": f1_score(labels, predictions, average="macro", zero_division=0),
    }
    if count == 2:
        case["f1"] = f1_score(labels, predictions, zero_division=0)
        case["matthews"] = number(matthews_corrcoef(labels, predictions))
    return case


def scores(rng):
    size = int(rng.integers(2, 60))
    # Few different values, so that there are ties.
    labels = np.float32(rng.integers(0, 26, size) / 5)
    predictions = np.clip(np.float32(labels + rng.normal(0, rng.choice([0.1, 1, 3]), size)), 0, 5)
    labels, predictions = labels.astype(np.float64), predictions.astype(np.float64)
    return {
        "labels": labels.tolist(),
        "predictions": predictions.tolist(),
        "pearson": number(pearsonr(labels, predictions)[0]),
        "spearman": number(spearmanr(labels, predictions)[0]),
        "rmse": mean_squared_error(labels, predictions) ** 0.5,
        "mae": mean_absolute_error(labels, predictions),
    }


def tags(rng):
    names = ["O", "O", "O"] + [f"{position}-{kind}" for position in "BI" for kind in ["PER", "LOC"]]
    labels, predictions = [], []
    for _ in range(int(rng.integers(1, 6))):
        sentence = [str(rng.choice(names)) for _ in range(int(rng.integers(1, 12)))]
        labels.append(sentence)
        predictions.append([tag if rng.random() < 0.7 else str(rng.choice(names)) for tag in sentence])
    lines = ["\n".join(f"w {a} {b}" for a, b in zip(x, y)) for x, y in zip(labels, predictions)]
    text = "\n\n".join(lines) + "\n"
    report = subprocess.run(["perl", SCRIPTS / "conlleval.pl"], input=text, capture_output=True, text=True, check=True).stdout
    actual, predicted, correct = map(int, re.search(r"with (\d+) phrases; found: (\d+) phrases; correct: (\d+)", report).groups())
    return {
        "labels": labels,
        "predictions": predictions,
        "actual": actual,
        "predicted": predicted,
        "correct": correct,
        "precision": float(precision_score(labels, predictions, zero_division=0)),
        "recall": float(recall_score(labels, predictions, zero_division=0)),
        "f1": float(entity_f1(labels, predictions, zero_division=0)),
    }


def answers(first, second):
    text = lambda most: " ".join(random.choice(WORDS) for _ in range(random.randint(0, most)))
    gold = [text(4) for _ in range(random.randint(1, 3))]
    given = random.choice([text(4), random.choice(gold), " ".join(gold[0].split()[:2])])
    data = [{"paragraphs": [{"context": "", "qas": [{"id": "q", "answers": [{"text": answer} for answer in gold]}]}]}]
    exact, f1 = second.get_raw_scores(data, {"q": given})
    return {
        "gold": gold,
        "given": given,
        "first": [float(first.metric_max_over_ground_truths(function, given, gold)) for function in (first.exact_match_score, first.f1_score)],
        "second": [float(exact["q"]), float(f1["q"])],
    }


def main():
    rng = np.random.default_rng(7)
    random.seed(7)
    first, second = script("evaluate-v1.1.py"), script("evaluate-v2.0.py")
    kinds = {
        "classes": lambda: classes(rng),
        "scores": lambda: scores(rng),
        "tags": lambda: tags(rng),
        "answers": lambda: answers(first, second),
    }
    goldens = {name: [make() for _ in range(CASES)] for name, make in kinds.items()}
    json.dump(goldens, sys.stdout, separators=(",", ":"), sort_keys=True)
    print()


main()
