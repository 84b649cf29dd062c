#!/usr/bin/env python3
"""compare_safetensors.py VERDICTS [--cases N] [--seed S] [--out FILE] [--golden FILE]

Reads generated and mutated files with this project's reader (VERDICTS: build/tests/checkpoint/safetensors_verdicts) and
with the `safetensors` package, which must be importable (pip install safetensors). Both must accept the same files and
find the same tensors in them; allowed are three differences, in which ours is stricter: a key that appears twice, a NUL
in a name, a dimension of 2^63 or more. --out keeps the counts; --golden keeps the corpus (no random cases) with the
package's verdicts, as the tests replay it. Exit code 1 on any other difference, with the file in hexadecimal.
"""
import argparse
import collections
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import threading
import time

import safetensors

BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
        "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
        "C64": 64, "F64": 64, "I64": 64, "U64": 64}
NUMBERS = ["0", "1", "2", "7", "8", "-1", "-0", "1.0", "1e1", "00", "9223372036854775807", "9223372036854775808",
           "18446744073709551615", "18446744073709551616", "4294967296", "4611686018427387904", "null", "true", '"8"',
           "[8]", "{}", ""]
PIECES = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\t", b"\n", b"\r", b"\0", b"\x0b", b"\x1f", b"\x7f",
          b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\u0000", b"\\ud800", b"\\ud83d\\ude00", b"\\x",
          b"NaN", b"1e400", b"-", b"0", b"null", b'"dtype":"U8",', b'"shape":[1],', b'"data_offsets":[0,1],',
          b'"__metadata__":{"k":"v"},', b'"__metadata__":null,', b'"extra":[1,{"x":[]}],', b"/*x*/"]
STRICTER = {"key twice": r"appears twice", "NUL in a name": r"holds a NUL", "dimension of 2^63": r"size of its shape overflows"}


def file_of(header: bytes, data: bytes, size: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if size is None else size) + header + data


def entry(name: str, dtype: str, shape: str, begin, end, more: str = "") -> str:
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]{more}}}'


def corpus() -> list[bytes]:
    """Files that each try one rule of the format."""
    good = entry("a", "U8", "[8]", 0, 8)
    cases = [file_of(b"{}", b""), file_of(b"", b""), file_of(b"{", b""), file_of(b"[]", b""), file_of(b"null", b"")]
    cases += [b"", b"\0" * 7, file_of(b"{}", b"", 3), file_of(b"{}", b"", 2**63), file_of(b"{}", b"", 2**64 - 1),
              file_of(b"{}", b"", 100_000_000), file_of(b"{}", b"", 100_000_001)]

    def add(header: str | bytes, size: int = 8) -> None:
        header = header if isinstance(header, bytes) else header.encode()
        cases.append(file_of(header, bytes(range(size))))

    for size in (0, 7, 8, 9):
        add("{" + good + "}", size)
    for before in ("", " ", "\t\r\n ", "\0", "\x0b", "\ufeff", "x"):
        for after in ("", " ", "\t\r\n ", "\0", "\x0b", "x", "{}"):
            add(before + "{" + good + "}" + after)
    for dtype in [*BITS, "u8", "F128", "", "U8 ", "F6", "F8"]:
        for numel in (0, 1, 2, 4, 8):
            bits = BITS.get(dtype, 8) * numel
            add("{" + entry("a", dtype, f"[{numel}]", 0, bits // 8) + "}", bits // 8)
    for number in NUMBERS:
        for shape in (f"[{number}]", f"[8,{number}]", f"[0,{number}]", f"[{number},0]", number):
            add("{" + entry("a", "U8", shape, 0, 8) + "}")
            add("{" + entry("a", "U8", shape, 0, 0) + "}", 0)
        add("{" + entry("a", "U8", "[8]", number, 8) + "}")
        add("{" + entry("a", "U8", "[8]", 0, number) + "}")
        add('{"a":{"dtype":%s,"shape":[8],"data_offsets":[0,8]}}' % (number or "x"))
        add('{"a":{"dtype":"U8","shape":[8],"data_offsets":%s}}' % (number or "x"))
        add('{"a":%s}' % (number or "x"))
        add('{"__metadata__":%s}' % (number or "x"), 0)
        add('{"__metadata__":{"k":%s}}' % (number or "x"), 0)
        add("{" + entry("a", "U8", "[8]", 0, 8, ',"extra":%s' % (number or "x")) + "}")
    for offsets in ("[]", "[0]", "[0,8,8]", "[[0,8]]", "{}"):
        add('{"a":{"dtype":"U8","shape":[8],"data_offsets":%s}}' % offsets)
    for first in ((0, 4), (4, 8), (0, 5), (1, 4), (4, 0), (0, 0), (0, 8)):
        for second in ((0, 4), (4, 8), (3, 8), (5, 8), (8, 4), (8, 8), (0, 8)):
            add("{" + entry("a", "U8", f"[{max(first[1] - first[0], 0)}]", *first) + "," +
                entry("b", "U8", f"[{max(second[1] - second[0], 0)}]", *second) + "}")
    for name in ("", "a b", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "\\udc00x", "\\u0000", "\\n", "\n", "\\x", "../x",
                 "__metadata", "x" * 300):
        add("{" + entry(name, "U8", "[8]", 0, 8) + "}")
        add('{"__metadata__":{"%s":"v"},%s}' % (name, good))
        add('{"__metadata__":{"k":"%s"},%s}' % (name, good))
        add("{" + entry("a", "U8", "[8]", 0, 8, ',"%s":"%s"' % (name, name)) + "}")
    for depth in (1, 10, 124, 125, 126, 127, 128, 129, 1000):
        add("{" + entry("a", "U8", "[8]", 0, 8, ',"deep":' + "[" * depth + "]" * depth) + "}")
        add("{" + entry("a", "U8", "[8]", 0, 8, ',"deep":' + '{"x":' * depth + "1" + "}" * depth) + "}")
    for value in ("1e400", "-1e400", "1e-400", "123456789012345678901234567890", "0.1", "1.", ".5", "+1", "01", "1e", "0x1",
                  "Infinity", "-", "tru", "nul", "'x'", '"\x7f"', '"\\/"', '"\\b\\f"'):
        add("{" + entry("a", "U8", "[8]", 0, 8, ',"extra":' + value) + "}")
    for twice in (good + "," + good, good + "," + entry("a", "U8", "[0]", 8, 8), '"__metadata__":{},"__metadata__":{},' + good,
                  '"__metadata__":{"k":"1","k":"1"},' + good, entry("a", "U8", "[8]", 0, 8, ',"x":1,"x":2'),
                  entry("a", "U8", "[8]", 0, 8, ',"shape":[8]'), entry("a", "U8", "[8]", 0, 8, ',"x":{"y":1,"y":2}')):
        add("{" + twice + "}")
    for missing in ('"shape":[8],"data_offsets":[0,8]', '"dtype":"U8","data_offsets":[0,8]', '"dtype":"U8","shape":[8]', ""):
        add('{"a":{%s}}' % missing)
    for raw in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\x01"):
        add(b'{"%s":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}' % raw)
    for broken in ("{" + good + ",}", "{," + good + "}", "{" + good, "{" + good + "}}", good, "{" + good + "} {}",
                   "{" + good.replace(":", "=") + "}", "{" + good.replace('"', "'") + "}"):
        add(broken)
    return cases


def random_file(rng: random.Random) -> bytes:
    """A correct file of a few tensors, now and then with one of its numbers wrong."""
    parts, at = [], 0
    if rng.random() < 0.4:
        parts.append('"__metadata__":' + rng.choice(['{"format":"pt"}', "{}", "null", '{"k":"v","l":""}']))
    for index in range(rng.randrange(4)):
        dtype = rng.choice(list(BITS))
        shape = [rng.choice([0, 1, 2, 3, 4]) for _ in range(rng.randrange(4))]
        numel = 1
        for dim in shape:
            numel *= dim
        size = numel * BITS[dtype] // 8
        parts.append(entry(rng.choice(["w", "b", "layer.0"]) + str(index), dtype, json.dumps(shape), at, at + size))
        at += size
    rng.shuffle(parts)
    return file_of(("{" + ",".join(parts) + "}" + " " * rng.choice([0, 0, 3])).encode(), rng.randbytes(at))


def mutate(rng: random.Random, file: bytes) -> bytes:
    """One to three small changes; half of them keep the length prefix right."""
    header_bytes = int.from_bytes(file[:8], "little")
    if len(file) < 8 or header_bytes > len(file) - 8:
        header_bytes = max(len(file) - 8, 0)
    header, data = bytearray(file[8:8 + header_bytes]), bytearray(file[8 + header_bytes:])
    fixed = rng.random() < 0.9
    for _ in range(rng.randrange(1, 4)):
        kind = rng.randrange(8)
        at = rng.randrange(len(header) + 1)
        if kind == 0 and header:
            header[at % len(header)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            header[at:at] = rng.choice(PIECES)
        elif kind == 2:
            del header[at:at + rng.randrange(1, 6)]
        elif kind == 3:
            end = min(at + rng.randrange(1, 40), len(header))
            header[end:end] = header[at:end]
        elif kind == 4:
            numbers = list(re.finditer(rb"\d+", header))
            if numbers:
                span = rng.choice(numbers).span()
                header[span[0]:span[1]] = rng.choice(NUMBERS).encode()
        elif kind == 5:
            data = data[:rng.randrange(len(data) + 1)] if rng.random() < 0.5 else data + rng.randbytes(rng.randrange(1, 9))
        elif kind == 6:
            header[at:at] = b" "
        else:
            strings = list(re.finditer(rb'"[^"]*"', header))
            if strings:
                span = rng.choice(strings).span()
                header[span[0]:span[1]] = b'"' + rng.choice([*map(str.encode, BITS), b"w0", b"b0", b"dtype", b"shape"]) + b'"'
    prefix = len(header) if fixed else rng.choice([header_bytes, len(header) + rng.randrange(-8, 9), rng.getrandbits(64)])
    return file_of(bytes(header), bytes(data), max(prefix, 0) & (2**64 - 1))


def peer_verdict(file: bytes) -> str:
    try:
        tensors = safetensors.deserialize(file)
    except safetensors.SafetensorError as error:
        return f"refused {error}"
    text = "accepted"
    for name, tensor in sorted(tensors, key=lambda item: item[0].encode()):
        shape = ",".join(map(str, tensor["shape"]))
        text += f' {name.encode().hex()}:{tensor["dtype"]}:{shape}:{bytes(tensor["data"]).hex()}'
    return text


def difference(ours: str, peer: str) -> str | None:
    """None where both agree, the name of an allowed difference, or "unexpected"."""
    if ours.startswith("refused") and peer.startswith("refused") or ours == peer:
        return None
    if ours.startswith("refused"):
        for name, pattern in STRICTER.items():
            if re.search(pattern, ours):
                return name
    return "unexpected"


class Reader:
    """The long-lived process with our reader."""

    def __init__(self, program: str):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def verdicts(self, files: list[bytes]) -> list[str]:
        writer = threading.Thread(target=self.send, args=(files,))  # both pipes may fill up meanwhile
        writer.start()
        lines = [self.process.stdout.readline().decode().rstrip("\n") for _ in files]
        writer.join()
        return lines

    def send(self, files: list[bytes]) -> None:
        self.process.stdin.write(b"".join(struct.pack("<I", len(file)) + file for file in files))
        self.process.stdin.flush()


def golden_line(file: bytes, peer: str, differs: str | None) -> str:
    row = {"file": file.decode("latin-1"), "peer": peer.split(" ", 1)[0]}
    if differs:
        row["stricter"] = differs
    return json.dumps(row) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verdicts")
    parser.add_argument("--cases", type=int, default=1_000_000, help="random files beside the corpus")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--golden", type=pathlib.Path)
    options = parser.parse_args()
    rng, reader = random.Random(options.seed), Reader(options.verdicts)
    base, counts, golden, unexpected = corpus(), collections.Counter(), [], 0
    start = time.monotonic()

    def compare(files: list[bytes]) -> int:
        bad = 0
        for file, ours in zip(files, reader.verdicts(files)):
            peer = peer_verdict(file)
            differs = difference(ours, peer)
            counts["accepted by both" if ours == peer else "refused by both" if differs is None else differs] += 1
            if len(golden) < len(base):
                golden.append(golden_line(file, peer, differs))
            if differs == "unexpected":
                bad += 1
                print(f"ours: {ours[:300]}\npeer: {peer[:300]}\nfile: {file[:300]!r}\nhex:  {file.hex()[:600]}\n", file=sys.stderr)
        return bad

    for file in base:
        unexpected += compare([file])
    done = 0
    while done < options.cases and unexpected < 20:
        batch = [random_file(rng) if rng.random() < 0.1 else mutate(rng, rng.choice(base) if rng.random() < 0.5 else random_file(rng))
                 for _ in range(min(500, options.cases - done))]
        batch = [file for file in batch if len(file) < 8192]
        unexpected += compare(batch)
        done += len(batch)
    figures = {"cases": len(base) + done, "corpus": len(base), "random": done, "seed": options.seed,
               "verdicts": dict(sorted(counts.items())), "unexpected_differences": unexpected,
               "seconds": round(time.monotonic() - start, 1), "safetensors": safetensors.__version__,
               "python": sys.version.split()[0]}
    print(json.dumps(figures, indent=2))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=2) + "\n")
    if options.golden:
        options.golden.write_text("".join(golden))
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main())
