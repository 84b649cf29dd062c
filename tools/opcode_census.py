#!/usr/bin/env python3
"""opcode_census.py OBJECT...: which instructions the compiled kernels hold, compared with a committed table.

Machine code is taken out of the objects' fatbins and read by nvdisasm; no GPU is needed. A line of the table is a kernel
file and an architecture: its tensor-core opcodes, its atomic opcodes, and the kernels that use local memory (spilled
registers, arrays indexed at run time). Floating-point atomics, whose order of additions is not fixed, fail whatever the
table says. --write makes the table anew, but for architectures that were not built. Exit code 1 on any difference, 77 where there is no nvdisasm.

Layout of a fatbin and of an instruction's text: read off nvcc 13.0 and nvdisasm 13.2.
"""
import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/backend_cuda/opcode_census.tsv"
WHEEL_FOLDER = ROOT / "build/nvdisasm"  # tools/install_deps.sh installs it there
HEADER = "# kernel file\tarchitecture\ttensor cores\tatomics\tkernels with local memory"
NO_DISASSEMBLER = 77

FATBIN_MAGIC = struct.pack("<I", 0xBA55ED50)
ELF_KIND = 2
COMPRESSED = 0x8000 | 0x2000
FEATURES_OF_ARCH = 0x100000  # sm_90a, not sm_90

KERNEL = re.compile(r"^\.text\.(\S+):$")
OPCODE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
TENSOR_CORE = re.compile(r"^[A-Z]+MMA(\.|$)")  # HMMA, HGMMA, QMMA, OMMA, UTCHMMA, ...
ATOMIC = re.compile(r"^(ATOM[GS]?|RED[GS]?|UBLKRED)(\.|$)")
FLOAT_ATOMIC = re.compile(r"\.(F16|F32|F64|BF16)")
LOCAL_MEMORY = re.compile(r"^(LDL|STL)(\.|$)")


def fail(text):
    print(f"opcode_census: {text}")
    sys.exit(1)


def find_nvdisasm():
    """The program that IDA_NVDISASM names, on the path, of the toolkit, or from the wheel; None: there is none."""
    named = os.environ.get("IDA_NVDISASM")
    candidates = [named] if named else [shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm",
                                        *WHEEL_FOLDER.glob("nvidia/*/bin/nvdisasm")]
    return next((str(path) for path in candidates if path and os.access(path, os.X_OK)), None)


def cubins(path):
    """(architecture, machine code) of everything compiled into an object."""
    data, at = path.read_bytes(), 0
    while (at := data.find(FATBIN_MAGIC, at)) >= 0:
        _, header_size, size = struct.unpack_from("<HHQ", data, at + 4)
        entry = at + header_size
        at = entry + size
        while entry < at:
            kind, = struct.unpack_from("<H", data, entry)
            entry_header, entry_size = struct.unpack_from("<IQ", data, entry + 4)
            arch, = struct.unpack_from("<I", data, entry + 28)
            flags, = struct.unpack_from("<Q", data, entry + 40)
            if kind == ELF_KIND:
                if flags & COMPRESSED:
                    fail(f"{path}: compressed machine code; nvcc was told --compress-mode")
                begin = entry + entry_header
                yield f"{arch}{'a' if flags & FEATURES_OF_ARCH else ''}", data[begin:begin + entry_size]
            entry += entry_header + entry_size


def disassemble(nvdisasm, code):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        done = subprocess.run([nvdisasm, "-c", "-ndf", file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{nvdisasm}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def opcodes(text):
    """{kernel, by its symbol: its set of opcodes} of a disassembly."""
    found, kernel = {}, None
    for line in text.splitlines():
        if head := KERNEL.match(line):
            kernel = found.setdefault(head.group(1), set())
        elif (instruction := OPCODE.match(line)) and kernel is not None:
            kernel.add(instruction.group(1))
    return found


def kernel_names(symbols):
    """Without parameters, return types and namespaces."""
    if not symbols:
        return []
    done = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    plain = (re.sub(r"\((\w+::)*\w+\)(?=\d)", "", name.replace("(anonymous namespace)::", ""))  # (Enum)2 is 2
             for name in done.stdout.split("\n") if name)
    return sorted(re.sub(r"\(.*", "", name).split(" ", 1)[-1].replace("ida::cuda::", "") for name in plain)


def census_row(nvdisasm, code):
    """[tensor cores, atomics, kernels with local memory] as the table writes them, and {kernel: floating atomic}."""
    by_kernel = opcodes(disassemble(nvdisasm, code))
    every = set().union(*by_kernel.values())
    if not every:
        fail("a disassembly without a single instruction: nvdisasm's text has another form")
    tensor = {op for op in every if TENSOR_CORE.match(op)}
    atomics = {op for op in every if ATOMIC.match(op)}
    local = kernel_names([name for name, ops in by_kernel.items() if any(map(LOCAL_MEMORY.match, ops))])
    floating = {name: op for name, ops in by_kernel.items() for op in ops if op in atomics and FLOAT_ATOMIC.search(op)}
    return [", ".join(column) or "-" for column in (sorted(tensor), sorted(atomics), local)], floating


def take_census(nvdisasm, objects):
    """({(kernel file, architecture): columns}, one line a floating atomic)"""
    codes = {(path.name.split(".")[0], arch): code for path in objects for arch, code in cubins(path)}
    if not codes:
        fail("no machine code in " + ", ".join(path.name for path in objects))
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count())) as pool:
        rows = dict(zip(codes, pool.map(lambda code: census_row(nvdisasm, code), codes.values())))
    floating = [f"{file} sm_{arch}: {kernel_names([kernel])[0]} holds {op}: sums by floating-point atomics depend on the "
                "order of threads" for (file, arch), (_, atomics) in rows.items() for kernel, op in atomics.items()]
    return {key: columns for key, (columns, _) in rows.items()}, floating


def read_table(path):
    rows = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        if line and not line.startswith("#"):
            file, arch, *columns = line.split("\t")
            rows[file, arch] = columns
    return rows


def differences(expected, found):
    """One line each. Architectures that this build left out are not compared."""
    archs = {arch for _, arch in found}
    for key in sorted(set(found) | {key for key in expected if key[1] in archs}):
        where = f"{key[0]} sm_{key[1]}"
        if key not in found:
            yield f"{where}: in the table, but no such kernel file was compiled"
        elif key not in expected:
            yield f"{where}: not in the table"
        else:
            for column, want, got in zip(HEADER.split("\t")[2:], expected[key], found[key]):
                if want != got:
                    yield f"{where}: {column}: expected {want}, found {got}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("objects", nargs="+", type=Path, help="objects; those without kernels (.cpp.o) are passed over")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--nvcc", default="", help="version of the compiler, for the message")
    parser.add_argument("--write", action="store_true", help="write the table instead of comparing with it")
    arguments = parser.parse_args()
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        print("opcode_census: skipped: no nvdisasm (CUDA=1 tools/install_deps.sh installs it)")
        return NO_DISASSEMBLER
    objects = [path for path in arguments.objects if path.name.endswith(".cu.o")]
    found, findings = take_census(nvdisasm, objects)
    if arguments.write and not findings:
        archs = {arch for _, arch in found}
        kept = {key: columns for key, columns in read_table(arguments.table).items() if key[1] not in archs}
        lines = ["\t".join([*key, *columns]) for key, columns in sorted((found | kept).items())]
        arguments.table.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    elif not arguments.write:
        findings += differences(read_table(arguments.table), found)
    for finding in findings:
        print(finding)
    if findings and not arguments.write:
        print(f"opcode_census: compiled by nvcc {arguments.nvcc or 'of an unknown version'}; where a difference is meant, "
              "the target opcode_census_table (here --write) makes the table anew")
    print(f"opcode_census: {len(found)} cubins, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
