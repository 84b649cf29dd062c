#!/usr/bin/env python3
"""tokenizer_bytes.py PROGRAM [--out FILE] [--strings N] [--seed S]

Encodes random texts with this program and with the `tokenizers` package and compares the ids: N texts for each tokenizer
of the shared data, made of bytes that are valid UTF-8 in any mixture of scripts, controls, blanks and marks. Some
vocabularies (SmolLM2) have no token for some bytes; what is dropped there must be the same. Then a BPE is trained by both
on one text with several settings, and the vocabularies and merges are compared. Needs `pip install tokenizers`.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402
from tokenizers import models, pre_tokenizers, trainers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHARED = pathlib.Path(os.environ.get("IDA_TRAIN_SHARED", ROOT.parent / "shared"))
RANGES = [(0, 0x20), (0x20, 0x7F), (0x80, 0x100), (0x300, 0x370), (0x400, 0x500), (0x600, 0x700), (0x900, 0x980),
          (0x2000, 0x2070), (0x3000, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xFE00, 0xFE10), (0x1F600, 0x1F650),
          (0x10FF00, 0x110000)]
SEPARATOR = "\n"
# Vocabularies whose byte tokens the package cannot reach: it drops the text, this program gives every byte back.
OURS_IS_COMPLETE = {"torchtitan_test"}


def random_text(rng: random.Random) -> str:
    """Up to 40 characters without a line feed."""
    chars = []
    while len(chars) < rng.randrange(1, 40):
        low, high = rng.choice(RANGES)
        chars += [chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 6))]
    return "".join(chars).replace("\n", "\r")


def ids_of_program(program: str, tokenizer: pathlib.Path, text: str) -> list[int]:
    command = [program, "tokenizer", "encode", "--tokenizer", str(tokenizer), "--stdin"]
    return [int(word) for word in subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout.split()]


def compare_texts(program: str, file: pathlib.Path, texts: list[str]) -> dict:
    """Joins the texts by line feeds into one call: the package is given the same joined text, and each alone."""
    try:
        peer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises nothing narrower; it does not read some old spellings of merges
        return {"tokenizer": file.parent.name, "peer_refuses": str(error)}
    peer.no_truncation()
    peer.no_padding()
    differ = 0
    for at in range(0, len(texts), 50):
        group = texts[at:at + 50]
        joined = SEPARATOR.join(group)
        if ids_of_program(program, file, joined) != peer.encode(joined, add_special_tokens=False).ids:
            differ += sum(ids_of_program(program, file, text) != peer.encode(text, add_special_tokens=False).ids
                          for text in group) or 1
    dropped = sum(peer.decode(peer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False) != text for text in texts)
    return {"tokenizer": file.parent.name, "texts": len(texts), "different": differ, "peer_decodes_to_another_text": dropped}


def compare_training(program: str, text: pathlib.Path, vocab_size: int, folder: pathlib.Path) -> dict:
    subprocess.run([program, "tokenizer", "train", str(text), "--vocab-size", str(vocab_size), "--out", str(folder / "t")],
                   check=True, capture_output=True)
    ours = json.loads((folder / "t" / "tokenizer.json").read_text())["model"]
    peer = tokenizers.Tokenizer(models.BPE())
    peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    peer.train_from_iterator([text.read_text()], trainer)
    theirs = json.loads(peer.to_str())["model"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in ours["merges"]]
    return {"text": text.name, "vocab_size": vocab_size, "same_vocab": ours["vocab"] == theirs["vocab"],
            "same_merges": pairs == [merge.split(" ") if isinstance(merge, str) else merge for merge in theirs["merges"]]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--strings", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    files = sorted(SHARED.glob("data/tokenizers/*/tokenizer.json"))
    if not files:
        print(f"skipped: no tokenizers below {SHARED}")
        return 0
    rng = random.Random(options.seed)
    rows = []
    for file in files:
        rows.append(compare_texts(options.program, file, [random_text(rng) for _ in range(options.strings)]))
        print(rows[-1], flush=True)
    training = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, vocab_size in (("tinystories_mini.txt", 300), ("tinystories_mini.txt", 4096), ("wiki_00.txt", 2000)):
            training.append(compare_training(options.program, SHARED / "data/text" / name, vocab_size, pathlib.Path(scratch)))
            print(training[-1], flush=True)
    figures = {"tokenizers": tokenizers.__version__, "seed": options.seed, "random_texts": rows, "training": training}
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1) + "\n")
    other_ids = any(row.get("different") and row["tokenizer"] not in OURS_IS_COMPLETE for row in rows)
    return int(other_ids or not all(row["same_vocab"] and row["same_merges"] for row in training))


if __name__ == "__main__":
    sys.exit(main())
