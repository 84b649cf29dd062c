#!/usr/bin/env python3
"""tokenizer_bytes.py PROGRAM [--out FILE] [--strings N] [--seed S]

Encodes random texts with this program and with the `tokenizers` package and compares the ids: N texts for each tokenizer
of the shared data, made of bytes that are valid UTF-8 in any mixture of scripts, controls, blanks and marks. Some
vocabularies (SmolLM2) have no token for some bytes; what is dropped there must be the same. Invalid UTF-8 is compared
with nothing: the package takes only str, which the record says. Needs `pip install tokenizers`.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402
import tokenizers.models  # noqa: E402

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


def takes_invalid_utf8() -> bool:
    """Whether the package encodes bytes that are not UTF-8, given as bytes or as a str that stands for them."""
    peer = tokenizers.Tokenizer(tokenizers.models.BPE())
    for text in (b"\xff", b"\xff".decode(errors="surrogateescape")):
        try:
            peer.encode(text)
            return True
        except (TypeError, UnicodeEncodeError):
            pass
    return False


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
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True).stdout.strip()
    figures = {"program": version, "tokenizers": tokenizers.__version__, "seed": options.seed,
               "package_takes_invalid_utf8": takes_invalid_utf8(), "random_texts": rows}
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1) + "\n")
    return int(any(row.get("different") and row["tokenizer"] not in OURS_IS_COMPLETE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
