#!/bin/sh
# tokenizers 0.23.3, Python 3.11, Linux.
#
# Behaviour: `WordPieceTrainer`, given the same texts and the same settings, learns another tokenizer in nearly every
# call, also within one process and with one thread: the pieces have other numbers, and some are others.
# What one would guess: training has no seed, so that it is a function of the texts, as it is of `BpeTrainer` with the
# 256 bytes as its alphabet. Cause: a character within a word, such as `##a`, gets its number when it is first met, words
# are met in the order of a hash table with a random seed, and equally frequent pairs are merged in the order of these
# numbers. With all such characters given as special tokens, in order, the result is a function of the texts.
#
# Exits with 1 if this changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tokenizers==0.23.3
cat > "$folder/train.py" <<'SCRIPT'
import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

TEXTS = ["the cat sat on the mat", "a dog ran after the cat", "birds sing in the morning light"]
LETTERS = sorted(set("".join(TEXTS)) - {" "})


def trained(given):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=80, special_tokens=["[UNK]", *given], initial_alphabet=LETTERS, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def differing(given):
    made = [trained(given) for _ in range(20)]
    numbered = {str(sorted(each.get_vocab().items())) for each in made}
    pieces = {str(sorted(each.get_vocab())) for each in made}
    return len(numbered), len(pieces)


plain, given = differing([]), differing([f"##{letter}" for letter in LETTERS])
print(f"tokenizers {tokenizers.__version__}: of 20 trainings on 3 sentences")
print(f"  {plain[0]} numberings differ, {plain[1]} sets of pieces")
print(f"  with the characters given: {given[0]} and {given[1]}")
raise SystemExit(not (plain[0] > 1 and given == (1, 1)))
SCRIPT
RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false "$folder/venv/bin/python" "$folder/train.py"
