#!/usr/bin/env python3
"""tokenizer_training.py PROGRAM [--out FILE]

Trains byte-level BPE with this program (`ida-train tokenizer train`) and with the `tokenizers` package and compares
vocabulary, ids and merges, over texts of the shared data (IDA_TRAIN_SHARED, or ../shared), vocabulary sizes, least
frequencies, special tokens and word patterns. Here every byte is in the vocabulary from the start, as in the package
with initial_alphabet = ByteLevel.alphabet(). Without one the package knows only the characters it saw: it is trained
again like that, to as many merges, and must give the same merges. Needs `pip install tokenizers`.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402
from tokenizers import models, pre_tokenizers, trainers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHARED = pathlib.Path(os.environ.get("IDA_TRAIN_SHARED", ROOT.parent / "shared"))
ALPHABET = pre_tokenizers.ByteLevel.alphabet()
DEFAULTS = {"vocab_size": 1000, "min_frequency": 0, "special_tokens": ["<|endoftext|>"], "pattern": "gpt2"}
SETTINGS = [
    *({"vocab_size": size} for size in (257, 258, 300, 1000, 4096, 30000)),
    *({"min_frequency": least} for least in (1, 2, 3, 10, 1000)),
    {"vocab_size": 30000, "min_frequency": 2},
    {"vocab_size": 30000, "min_frequency": 10},
    {"special_tokens": ["<s>", "</s>", "<unk>", "<pad>"]},
    {"special_tokens": ["the", "e"], "vocab_size": 400},  # "the" is also what merges spell; "e" is refused
    {"special_tokens": ["the", " the", "\u4e2d"], "vocab_size": 400},
    *({"pattern": pattern, "vocab_size": size} for pattern in ("llama3", "qwen2") for size in (300, 4096)),
]


def pairs(merges: list) -> list[list[str]]:
    return [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]


def train_ours(program: str, text: pathlib.Path, settings: dict, folder: pathlib.Path) -> dict | None:
    """tokenizer.json, or nothing where the settings are refused."""
    command = [program, "tokenizer", "train", str(text), "--out", str(folder)]
    for name in ("vocab_size", "min_frequency", "pattern"):
        command += [f"--{name.replace('_', '-')}", str(settings[name])]
    for token in settings["special_tokens"]:
        command += ["--special-token", token]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == 2:
        return None
    run.check_returncode()
    return json.loads((folder / "tokenizer.json").read_text())


def train_peer(ours: dict, text: str, settings: dict, alphabet: list[str], vocab_size: int) -> dict:
    """The package with the normalizer and the word pattern of `ours`, and a model of its own."""
    empty = {**ours, "added_tokens": [], "model": json.loads(tokenizers.Tokenizer(models.BPE()).to_str())["model"]}
    peer = tokenizers.Tokenizer.from_str(json.dumps(empty))
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=settings["min_frequency"], show_progress=False,
                                  special_tokens=settings["special_tokens"], initial_alphabet=alphabet)
    peer.train_from_iterator([text], trainer)
    return json.loads(peer.to_str())["model"]


def compare(program: str, path: pathlib.Path, settings: dict) -> dict:
    row = {"text": path.name, **settings}
    with tempfile.TemporaryDirectory() as folder:
        ours = train_ours(program, path, settings, pathlib.Path(folder))
    if ours is None:
        return {**row, "refused_here": True}
    text = path.read_bytes().decode()
    theirs = train_peer(ours, text, settings, ALPHABET, settings["vocab_size"])
    merges = pairs(ours["model"]["merges"])
    row |= {"tokens": len(ours["model"]["vocab"]), "merges": len(merges),
            "same_vocab": ours["model"]["vocab"] == theirs["vocab"], "same_merges": merges == pairs(theirs["merges"])}
    # To as many merges: of single characters that package has only those of the text.
    seen = train_peer(ours, text, settings, [], len(settings["special_tokens"]))["vocab"]
    num_unseen = len(ALPHABET) + len(settings["special_tokens"]) - len(seen)
    bare = train_peer(ours, text, settings, [], settings["vocab_size"] - num_unseen)
    return {**row, "unseen_bytes": num_unseen, "same_merges_without_alphabet": merges == pairs(bare["merges"])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    texts = [SHARED / "data/text" / name for name in ("tinystories_mini.txt", "wiki_00.txt")]
    if not all(text.is_file() for text in texts):
        print(f"skipped: no texts below {SHARED}")
        return 0
    rows = []
    for text in texts:
        for settings in SETTINGS:
            rows.append(compare(options.program, text, {**DEFAULTS, **settings}))
            print(rows[-1], flush=True)
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True).stdout.strip()
    same = all(value for row in rows for key, value in row.items() if key.startswith("same_"))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        figures = {"program": version, "tokenizers": tokenizers.__version__, "all_same": same, "rows": rows}
        options.out.write_text(json.dumps(figures, indent=1) + "\n")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
