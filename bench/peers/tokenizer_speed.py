#!/usr/bin/env python3
"""tokenizer_speed.py PROGRAM [--out FILE] [--repeats N] [--bytes N]

Encodes the same texts with this program (`ida-train bench tokenizer`) and with the `tokenizers` package, one after the
other on one thread each, and compares ids and speed. Texts and tokenizers are those of the shared data (IDA_TRAIN_SHARED,
or ../shared); beside them texts without an end of a word, --bytes long: random letters, one character, blanks, invalid
UTF-8 (the last one for this program alone: the package takes only str). The package runs twice: `encode` and
`encode_fast`, which leaves out offsets; the faster one counts. Seconds are processor time of the thread, so that other
work on the machine hardly counts. Needs `pip install tokenizers`.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHARED = pathlib.Path(os.environ.get("IDA_TRAIN_SHARED", ROOT.parent / "shared"))


def long_texts(folder: pathlib.Path, size: int) -> list[pathlib.Path]:
    rng = random.Random(1)
    texts = {"letters": bytes(rng.choices(b"abcdefghijklmnopqrstuvwxyz", k=size)), "one_character": b"a" * size,
             "blanks": b" " * size, "invalid_utf8": rng.randbytes(size)}
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text)
    return [folder / f"{name}.txt" for name in texts]


def peer_row(tokenizer: tokenizers.Tokenizer, path: pathlib.Path, repeats: int) -> dict | None:
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        return None
    row = {}
    for name in ("encode", "encode_fast"):
        times = []
        for _ in range(repeats):
            start = time.thread_time()
            encoding = getattr(tokenizer, name)(text, add_special_tokens=False) if name == "encode" else \
                tokenizer.encode_batch_fast([text], add_special_tokens=False)[0]
            times.append(time.thread_time() - start)
        row[f"{name}_s"] = min(times)
        ids = encoding.ids
    row["ids_sha256"] = hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()
    return row


def compare(program: str, tokenizer_file: pathlib.Path, texts: list[pathlib.Path], repeats: int, out: pathlib.Path) -> list[dict]:
    command = [program, "bench", "tokenizer", "--tokenizer", str(tokenizer_file), "--repeats", str(repeats), "--out", str(out)]
    for text in texts:
        command += ["--text", str(text)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    ours = json.loads(out.read_text())["texts"]
    try:
        peer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
        peer.no_truncation()
        peer.no_padding()
    except Exception:  # the package raises nothing narrower; it does not read some old spellings of merges
        peer = None
    rows = []
    for path, our in zip(texts, ours):
        row = {"tokenizer": tokenizer_file.parent.name, "text": path.name, "text_bytes": our["text_bytes"],
               "tokens": our["tokens"], "encode_s": our["encode_s"], "mb_per_s": round(our["text_bytes"] / our["encode_s"] / 1e6, 2),
               "decodes_to_text": our["decodes_to_text"]}
        theirs = peer_row(peer, path, repeats) if peer else None
        if theirs:
            best = min(theirs["encode_s"], theirs["encode_fast_s"])
            row |= {"peer_encode_s": theirs["encode_s"], "peer_encode_fast_s": theirs["encode_fast_s"],
                    "times_the_peer": round(best / our["encode_s"], 2), "same_ids": theirs["ids_sha256"] == our["ids_sha256"]}
        rows.append(row)
        print(f"{row['tokenizer']:>16} {row['text']:>24} {row['mb_per_s']:>8} MB/s, {row.get('times_the_peer', '-')} x peer, "
              f"same ids: {row.get('same_ids', '-')}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=10 << 20)
    options = parser.parse_args()
    files = sorted(SHARED.glob("data/tokenizers/*/tokenizer.json"))
    texts = sorted(SHARED.glob("data/text/*.txt"))
    if not files or not texts:
        print(f"skipped: no tokenizers and texts below {SHARED}")
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        endless = long_texts(folder, options.bytes)
        for file in files:
            rows += compare(options.program, file, texts, options.repeats, folder / "out.json")
            rows += compare(options.program, file, endless, 1, folder / "out.json")
    version = subprocess.run([options.program, "--version"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    if options.out:
        figures = {"program": version, "tokenizers": tokenizers.__version__, "python": sys.version.split()[0], "cpu": cpu,
                   "repeats": options.repeats, "rows": rows}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1) + "\n")
    # torchtitan_test: its byte tokens are out of the package's reach, which drops what they stand for.
    return int(any(row.get("same_ids") is False and row["tokenizer"] != "torchtitan_test" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
