"""The 2018 script in plain Python, written from its description: tokenizer, pairs, masks, order of draws.

    reference.py make             writes the goldens of this folder anew
    reference.py check SHARED     compares this script with what google-research/bert@eedf571 itself gave

Needs CPython 3.11 (its tables are those of Unicode 14) and nothing else. README.md says what `make` writes.
"""
import collections
import hashlib
import json
import pathlib
import random
import sys
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent
ALMANAC = HERE.parents[3] / "corpora" / "almanac" / "train"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PUNCTUATION = [(33, 47), (58, 64), (91, 96), (123, 126)]
IDEOGRAPHS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
              (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
KEYS = ["input_ids", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_label"]


# --- tokenization.py ---------------------------------------------------------------------------------------------

def is_in(ranges, c):
    return any(low <= ord(c) <= high for low, high in ranges)


def clean(text):
    out = []
    for c in text:
        category = unicodedata.category(c)
        if c in "\t\n\r" or category == "Zs":
            out.append(" ")
        elif c not in "\0\ufffd" and category not in ("Cc", "Cf"):
            out.append(f" {c} " if is_in(IDEOGRAPHS, c) else c)
    return "".join(out)


def split_punctuation(word):
    parts, begins = [], True
    for c in word:
        alone = is_in(PUNCTUATION, c) or unicodedata.category(c).startswith("P")
        if alone or begins:
            parts.append(c)
        else:
            parts[-1] += c
        begins = alone
    return parts


def basic_tokens(text, do_lower_case):
    parts = []
    for word in clean(text).split():
        if do_lower_case:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in word if unicodedata.category(c) != "Mn")
        parts += split_punctuation(word)
    return " ".join(parts).split()


def word_pieces(word, ids):
    if len(word) > 200:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        end = next((end for end in range(len(word), start, -1) if prefix + word[start:end] in ids), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


class Tokenizer:
    def __init__(self, tokens, do_lower_case):
        self.tokens, self.do_lower_case = tokens, do_lower_case
        self.ids = {token: number for number, token in enumerate(tokens)}
        self.known = {}

    def pieces(self, text):
        found = []
        for word in basic_tokens(text, self.do_lower_case):
            if word not in self.known:
                self.known[word] = word_pieces(word, self.ids)
            found += self.known[word]
        return found


# --- create_pretraining_data.py ----------------------------------------------------------------------------------

def read_documents(texts, tokenizer):
    """A blank line ends a document, the end of a file does not; a carriage return is nothing."""
    documents = [[]]
    for text in texts:
        for line in text.replace("\r", "").removesuffix("\n").split("\n"):
            line = line.strip()
            if not line:
                documents.append([])
            elif sentence := tokenizer.pieces(line):
                documents[-1].append(sentence)
    return [document for document in documents if document]


def truncate(a, b, most, rng):
    while len(a) + len(b) > most:
        longer = a if len(a) > len(b) else b
        del longer[0 if rng.random() < 0.5 else -1]


def mask(tokens, setting, vocabulary, rng):
    words = []
    for at, token in enumerate(tokens):
        if token in ("[CLS]", "[SEP]"):
            continue
        if setting["whole_words"] and words and token.startswith("##"):
            words[-1].append(at)
        else:
            words.append([at])
    rng.shuffle(words)
    budget = min(setting["predictions"], max(1, round(len(tokens) * setting["prob"])))
    shown, masked = list(tokens), []
    for word in words:
        if len(masked) >= budget:
            break
        if len(masked) + len(word) > budget:
            continue
        for at in word:
            if rng.random() < 0.8:
                shown[at] = "[MASK]"
            elif rng.random() >= 0.5:
                shown[at] = vocabulary[rng.randint(0, len(vocabulary) - 1)]
            masked.append(at)
    return shown, sorted(masked)


def instances_of(documents, index, setting, vocabulary, rng):
    document, most, found = documents[index], setting["length"] - 3, []
    target = rng.randint(2, most) if rng.random() < setting["short"] else most
    chunk, length, at = [], 0, 0
    while at < len(document):
        chunk.append(document[at])
        length += len(document[at])
        if at == len(document) - 1 or length >= target:
            end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a = sum(chunk[:end], [])
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                for _ in range(10):
                    other = rng.randint(0, len(documents) - 1)
                    if other != index:
                        break
                b, wanted = [], target - len(a)
                for sentence in documents[other][rng.randint(0, len(documents[other]) - 1):]:
                    b += sentence
                    if len(b) >= wanted:
                        break
                at -= len(chunk) - end
            else:
                b = sum(chunk[end:], [])
            truncate(a, b, most, rng)
            tokens = ["[CLS]", *a, "[SEP]", *b, "[SEP]"]
            shown, positions = mask(tokens, setting, vocabulary, rng)
            segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
            found.append((shown, segments, positions, [tokens[p] for p in positions], int(is_random)))
            chunk, length = [], 0
        at += 1
    return found


def make_instances(texts, tokenizer, setting):
    rng = random.Random(setting["seed"])
    documents = read_documents(texts, tokenizer)
    rng.shuffle(documents)
    found = []
    for _ in range(setting["dupe"]):
        for index in range(len(documents)):
            found += instances_of(documents, index, setting, tokenizer.tokens, rng)
    rng.shuffle(found)
    ids = tokenizer.ids
    return [([ids[t] for t in shown], segments, positions, [ids[t] for t in labels], label)
            for shown, segments, positions, labels, label in found]


def digest_of(instances):
    """SHA-256 over `ids|segments|positions|labels|next sentence` and a line feed, lists joined with commas."""
    digest = hashlib.sha256()
    for *lists, label in instances:
        fields = [",".join(map(str, values)) for values in lists] + [str(label)]
        digest.update(("|".join(fields) + "\n").encode())
    return digest.hexdigest()


# --- the goldens of this folder ----------------------------------------------------------------------------------

def setting(inputs, vocab, lower=True, **changed):
    default = {"length": 128, "predictions": 20, "dupe": 2, "seed": 12345, "prob": 0.15, "short": 0.1,
               "whole_words": False, "shown": 12}
    return {"inputs": inputs, "vocab": vocab, "lower": lower, **default, **changed}


SETTINGS = {
    "default": setting(["odd", "nature"], "uncased"),
    "short": setting(["science", "odd"], "uncased", length=32, predictions=5, dupe=3, prob=0.2, short=0.5,
                     seed=2**33 + 5),
    "whole_words": setting(["odd", "culture"], "uncased", whole_words=True),
    "cased": setting(["nature", "odd"], "cased", lower=False, length=64, predictions=10),
    "long": setting(["long"], "uncased", length=512, predictions=77, seed=7, shown=4),
    "long_whole_words": setting(["long"], "uncased", length=512, predictions=77, whole_words=True, shown=4),
    "chinese": setting(["chinese"], "chinese", length=64, predictions=10, dupe=5),
}


def text_of(name):
    """`odd` and `chinese` lie here; `long` is the almanac with ten articles in a document; others are parts of it."""
    if (HERE / f"{name}.txt").exists():
        return (HERE / f"{name}.txt").read_bytes().decode()
    if name != "long":
        return (ALMANAC / f"{name}.txt").read_text()
    articles = [a for part in ("culture", "nature", "science") for a in text_of(part).strip().split("\n\n")]
    return "\n\n".join("\n".join(articles[at:at + 10]) for at in range(0, len(articles), 10)) + "\n"


def make_vocabulary(texts, do_lower_case, least, words, endings):
    """Special and unused tokens, characters that occur `least` times, frequent words and endings of words."""
    counts = collections.Counter(t for x in texts for t in basic_tokens(x.replace("\r", ""), do_lower_case))
    occurring = collections.Counter(c for word, count in counts.items() for c in word * count)
    characters = sorted(c for c, count in occurring.items() if count >= least)
    pieces = collections.Counter()
    for word, count in counts.items():
        for size in range(2, min(5, len(word))):
            pieces["##" + word[-size:]] += count * size
    several = {word: count for word, count in counts.items() if len(word) > 1}
    continuing = ["##" + c for c in characters if c.isalnum() and not is_in(IDEOGRAPHS, c)]
    unused = [f"[unused{number}]" for number in range(20)]
    return SPECIAL + unused + characters + continuing + most_frequent(several, words) + most_frequent(pieces, endings)


def most_frequent(counts, most):
    return sorted(counts, key=lambda token: (-counts[token], token))[:most]


VOCABULARIES = {
    "uncased": (["odd", "culture", "nature", "science"], True, 2, 900, 300),
    "cased": (["odd", "nature"], False, 2, 600, 200),
    "chinese": (["chinese"], True, 1, 20, 20),
}


def sweep_tokens(ranges):
    """A vocabulary in which no two characters have the same ids: each as a word's first piece and as a later one."""
    characters = [chr(c) for low, high in ranges for c in range(low, high + 1)]
    characters = [c for c in characters if c.strip() == c]
    return SPECIAL + [piece for c in characters for piece in (c, "##" + c)]


# Properties that have changed since Unicode 14: a nonspacing mark that is a spacing one now.
CHANGED = {0x1171E}


def sweep(ranges):
    """For each 4,096 code points digests of the ids of each character in a word, alone, and after a capital sigma."""
    tokens = sweep_tokens(ranges)
    tokenizers = [Tokenizer(tokens, True), Tokenizer(tokens, False)]
    blocks = {}
    for low, high in ranges:
        for code in sorted(set(range(low, high + 1)) - CHANGED):
            digests = blocks.setdefault(code >> 12, [hashlib.sha256(), hashlib.sha256()])
            for tokenizer, digest in zip(tokenizers, digests):
                tokenizer.known.clear()
                digest.update(sweep_line(tokenizer, code).encode())
    return {block: [digest.hexdigest()[:16] for digest in digests] for block, digests in blocks.items()}


def sweep_line(tokenizer, code):
    pieces = tokenizer.pieces(f"a{chr(code)}b {chr(code)} Σ{chr(code)}".strip())
    return f"{code:x} {','.join(str(tokenizer.ids[piece]) for piece in pieces)}\n"


def unicode_ranges():
    lines = (HERE / "unicode14.txt").read_text().split("\n")
    return [tuple(int(number, 16) for number in line.split()) for line in lines if line]


def make():
    for name, (texts, lower, *sizes) in VOCABULARIES.items():
        tokens = make_vocabulary([text_of(text) for text in texts], lower, *sizes)
        (HERE / f"vocab-{name}.txt").write_text("\n".join(tokens) + "\n")
    index = []
    for name, of in SETTINGS.items():
        tokens = (HERE / f"vocab-{of['vocab']}.txt").read_text().split("\n")[:-1]
        instances = make_instances([text_of(text) for text in of["inputs"]], Tokenizer(tokens, of["lower"]), of)
        lines = [json.dumps(dict(zip(KEYS, i)), separators=(",", ":")) for i in instances[:of["shown"]]]
        (HERE / f"golden_{name}.jsonl").write_text("\n".join(lines) + "\n")
        index.append({"name": name, **of, "instances": len(instances), "sha256": digest_of(instances)})
    lines = ",\n".join(json.dumps(entry) for entry in index)
    (HERE / "index.json").write_text(f"[\n{lines}\n]\n")
    rows = [f"{block:x}\t{uncased}\t{cased}\n" for block, (uncased, cased) in sorted(sweep(unicode_ranges()).items())]
    (HERE / "unicode14_ids.tsv").write_text("".join(rows))
    budgets = {prob: [max(1, round(length * prob)) for length in range(5, 513)] for prob in (0.1, 0.15, 0.2, 0.25)}
    lines = ",\n".join(f'"{prob}": {json.dumps(counts, separators=(",", ":"))}' for prob, counts in budgets.items())
    (HERE / "rounding.json").write_text(f"{{\n{lines}\n}}\n")


# --- against the reference itself --------------------------------------------------------------------------------

BENCH = {
    (128, 20, False): "31adbf493831014b05d8231bd7493d0417a5b995db39649c01e2e71792afbe7d",
    (128, 20, True): "78f1e3dc9fddc26cab4a622d0295b22c10d56d54071f70edca8c0db1a848a129",
    (512, 77, False): "23333e88cfb101d74a2980cfec6c8fdade7db06aaad5d9e4ddd1a65368fb2a8d",
}


# Over all lines `code u ids` and `code c ids` of Unicode 14 but U+1171E.
PUBLISHED_SWEEP = "ec279dfece611795fc0b54738a184e160d3fdebeff8799c2b12bb237891faf94"


def published_sweep(tokenizers):
    digest = hashlib.sha256()
    for low, high in unicode_ranges():
        for code in sorted(set(range(low, high + 1)) - CHANGED):
            for name, tokenizer in tokenizers.items():
                tokenizer.known.clear()
                digest.update(sweep_line(tokenizer, code).replace(" ", f" {name} ").encode())
    return digest.hexdigest()


def read_tokens(path):
    return [line.strip() for line in path.read_text().removesuffix("\n").split("\n")]


def check(shared):
    tokenizer = Tokenizer(read_tokens(shared / "data/vocab/bert-base-uncased-vocab.txt"), True)
    goldens = shared / "golden" / "create_pretraining_data"
    for of in json.loads((goldens / "index.json").read_text())["configs"]:
        texts = [(goldens / name).read_bytes().decode() for name in of["input"].split(",")]
        of = {"length": of["seqlen"], "predictions": of["maxpred"], "whole_words": of["wwm"], **of}
        found = digest_of(make_instances(texts, tokenizer, of))
        print("same" if found == of["sha256"] else "OTHER", of["name"])
    cased = Tokenizer(read_tokens(shared / "data/vocab/bert-base-cased-vocab.txt"), False)
    print("same" if published_sweep({"u": tokenizer, "c": cased}) == PUBLISHED_SWEEP else "OTHER", "every character")
    import zstandard  # only for this
    with open(shared / "data/corpora/bench_sentences.txt.zst", "rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    for (length, predictions, whole_words), expected in BENCH.items():
        of = setting([], "", length=length, predictions=predictions, whole_words=whole_words, dupe=5)
        found = digest_of(make_instances([text], tokenizer, of))
        print("same" if found == expected else "OTHER", "bench", length, predictions, whole_words)


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        make()
    elif len(sys.argv) == 3 and sys.argv[1] == "check":
        check(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
