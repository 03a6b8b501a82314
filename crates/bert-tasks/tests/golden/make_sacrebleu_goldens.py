"""Writes sacrebleu.json: texts, their BLEU and chrF, and the tokens of three tokenizers, by the package sacrebleu (2.6.0).

Run: python make_sacrebleu_goldens.py > sacrebleu.json
The first texts are the examples of sacreBLEU's README and of its tests test_bleu.py and test_chrf.py.
"""

import json

import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

README = (
    ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."],
    [
        ["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
        ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
    ],
)
SINGLE = [
    (["this is a test", "another test"], ["ref1", "ref2"]),
    (["this is a test"], ["this is a test"]),
    (["this is a fest"], ["this is a test"]),
    (["test"], ["a test"]),
    (["a little test"], ["a test"]),
    (["am I am a character sequence"], ["I am a symbol string sequence a a"]),
    (["abcdefg"], ["hijklmnop"]),
    (["a"], ["b"]),
    ([""], ["reference"]),
    (["aa"], ["ab"]),
    (["a", "b"], ["a", "c"]),
    (["a b c"], ["abc"]),
    (
        [" risk assessment must be made of those who are qualified and expertise in the sector - these are the scientists ."],
        ["risk assessment has to be undertaken by those who are qualified and expert in that area - that is the scientists ."],
    ),
    (
        [" Die    Beziehung zwischen  Obama und Netanjahu ist nicht gerade  freundlich. "],
        ["Das Verhältnis zwischen Obama und Netanyahu ist nicht gerade freundschaftlich."],
    ),
    (["Niemand hat die Absicht, eine Mauer zu errichten"], ["Niemand hat die Absicht, eine Mauer zu errichten"]),
    (
        ["Lapali po dechu, jejich životy skončily dřív, než skutečně začaly.", "Nebo prostě nemají vybavení"],
        ["Lapali po dechu a pak jejich život skončil - dřív, než skutečně mohl začít, připomněli.", "A někdy nemáme"],
    ),
    (["中文 测试 good", "x"], ["中文 测试 bad", ""]),
    (["我们在北京大学学习。"], ["我们在北京的大学里学习汉语。"]),
    (["先生は牛乳を買う。", "猫は水を飲む。"], ["先生は牛乳を買う。", "猫はお茶を飲む。"]),
]
LINES = [
    "Prices: 1,234.5 $ (3.5%), v2.0-rc1; 10-12, e.g. co-op.",
    "&quot;A &amp; B&quot; &lt;c&gt; <skipped>d",
    "it's.,.5 ,5. 5,a ..., -3 4-5 a-b",
    "über alles… “so” – ‘x’ 3 ,. 4",
    "a\u00a0b\u2009c\x1cd  e ",
    "foo[1]{2}|3~4^5_6`7@8#9+0=*/\\",
    "",
    "end. ",
    ".start ,x",
    "用 BERT-base 训练3.5天，“很好”…（见第2-3页）。",
    "カタカナとひらがな、漢字！ ﾊﾝｶｸ 🙂𠀀",
]


TOKENIZERS = {"13a": Tokenizer13a(), "zh": TokenizerZh(), "char": TokenizerChar()}


def case(tokenizer, hypotheses, references):
    return {
        "tokenizer": tokenizer,
        "hypotheses": hypotheses,
        "references": [list(of_sentence) for of_sentence in zip(*references)],
        "bleu": sacrebleu.corpus_bleu(hypotheses, references, tokenize=tokenizer).score,
        "chrf": sacrebleu.corpus_chrf(hypotheses, references).score,
    }


texts = [README, (["", "", ""], README[1])] + [(hypotheses, [references]) for hypotheses, references in SINGLE]
cases = [case(name, *text) for name in TOKENIZERS for text in texts]
tokens = [
    {"tokenizer": name, "line": line, "tokens": tokenizer(line.rstrip()).split()}
    for name, tokenizer in TOKENIZERS.items()
    for line in LINES
]
print(json.dumps({"version": sacrebleu.__version__, "cases": cases, "tokens": tokens}, ensure_ascii=False, indent=1))
