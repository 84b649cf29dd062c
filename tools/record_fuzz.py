#!/usr/bin/env python3
"""record_fuzz.py BUILD [FOLDER] [--runs N] [--seconds S] [--only TARGET ...]
record_fuzz.py --table FOLDER

Runs the libFuzzer programs of a build (cmake --preset fuzz) one after the other, from seeds that the project's own
writers make and a dictionary of the words in them. With FOLDER, each target leaves FOLDER/<target>.json: executions,
seconds, coverage, crashes, slowest input, peak memory, compiler, commit, command. Exit code 1 when an input broke a
promise; the input is kept in BUILD/found/ and belongs into tests/fuzz/regression/<target>/ once its fault is fixed.
--table prints the records of a folder as the table of docs/hostile_files.md.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Bytes; 4096 elsewhere. As short as the seeds allow, so that executions are cheap.
MAX_LEN = {"json_lines": 256, "manifest": 1536, "model_config": 768, "rank_file": 128, "run_config": 256, "shard_index": 768,
           "token_file": 1200, "token_shard": 1024, "tokenizer_text": 176, "weight_index": 256}
# Weighing inputs by rare features takes up to a third of the time of a small target.
LIMITS = ["-timeout=10", "-rss_limit_mb=1024", "-report_slow_units=1", "-entropic=0"]
# A small quarantine, so that the peak is the target's memory and not that of freed blocks kept for the sanitizer.
SANITIZER = {"ASAN_OPTIONS": "quarantine_size_mb=8:malloc_context_size=5", "OMP_NUM_THREADS": "1"}


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def write_dictionary(path: pathlib.Path, seeds: pathlib.Path) -> None:
    """Every word of the seeds, with its quotes where it has them."""
    words = set()
    for seed in seeds.iterdir():
        words.update(re.findall(rb'"[\w<>|.]{1,30}"|[A-Za-z_][\w.]{2,30}', seed.read_bytes()))
    quoted = [word.replace(b'"', b'\\"').decode() for word in sorted(words)]
    path.write_text("".join(f'"{word}"\n' for word in quoted))


def number_in(log: str, pattern: str, convert=int):
    found = re.findall(pattern, log)
    return convert(found[-1]) if found else None


def run_target(build: pathlib.Path, name: str, limits: list[str]) -> dict:
    program = build / "tests" / "fuzz" / f"fuzz_{name}"
    corpus, found = build / "corpus" / name, build / "found"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    for old in corpus.iterdir():  # every run starts from the seeds alone
        old.unlink()
    seeds, words = build / "seeds" / name, build / f"{name}.dict"
    write_dictionary(words, seeds)
    options = [*limits, f"-max_len={MAX_LEN.get(name, 4096)}", "-seed=1", "-print_final_stats=1", *LIMITS]
    dictionary = [f"-dict={words}"] if words.stat().st_size > 0 else []  # an empty one is refused
    program_sha256 = hashlib.sha256(program.read_bytes()).hexdigest()
    command = [str(program), str(corpus), str(seeds), *options, *dictionary, f"-artifact_prefix={found}/{name}-"]
    start = time.monotonic()
    run = subprocess.run(command, env={**os.environ, **SANITIZER}, capture_output=True, text=True, errors="replace")
    seconds = time.monotonic() - start
    log = run.stderr
    executions = number_in(log, r"stat::number_of_executed_units:\s+(\d+)")
    if run.returncode != 0 or executions is None:
        sys.stderr.write(log[-6000:])
    return {
        "target": name,
        "executions": executions,
        "seconds": round(seconds, 1),
        "executions_per_s": round((executions or 0) / seconds),
        "crashes": int(run.returncode != 0),  # libFuzzer ends at the first
        "coverage": {"edges": number_in(log, r"\bcov: (\d+)"), "features": number_in(log, r"\bft: (\d+)"),
                     "inputs_kept": number_in(log, r"\bcorp: (\d+)/")},
        "slowest_input_s": number_in(log, r"stat::slowest_unit_time_sec:\s+(\d+)"),  # whole seconds, rounded down
        "peak_rss_mib": number_in(log, r"stat::peak_rss_mb:\s+(\d+)"),
        "command": [f"fuzz_{name}", "corpus", "seeds", *options, *(["-dict=words"] if dictionary else [])],
        "environment": SANITIZER,
        "program_sha256": program_sha256,
    }


def build_facts(build: pathlib.Path) -> dict:
    cache = (build / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:[A-Z]+=(.*)$", cache, re.M).group(1)
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return {
        "compiler": output_of(compiler, "--version").splitlines()[0],
        "sanitizers": "fuzzer, address, undefined",
        "commit": output_of("git", "rev-parse", "HEAD"),
        "sources_changed": bool(output_of("git", "status", "--porcelain", "--", "src", "tests/fuzz")),
        "cpu": cpu.group(1) if cpu else "unknown",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def print_table(folder: pathlib.Path) -> None:
    print("| target | executions | crashes | edges | slowest input | peak memory |\n|---|---|---|---|---|---|")
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        if "target" in record:
            print(f"| `{record['target']}` | {record['executions']:,} | {record['crashes']} | {record['coverage']['edges']:,} "
                  f"| under {record['slowest_input_s'] + 1} s | {record['peak_rss_mib']} MiB |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--runs", type=int, default=2_000_000, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=0, help="end each target after this time; 0: never")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--table", type=pathlib.Path)
    options = parser.parse_args()
    if options.table:
        print_table(options.table)
        return 0
    if not options.build:
        parser.error("the folder of the build is missing")
    build = options.build.resolve()
    subprocess.run([build / "tests" / "fuzz" / "make_seeds", build / "seeds"], check=True)
    names = options.only or [folder.name for folder in sorted((build / "seeds").iterdir())]
    limits = [f"-runs={options.runs}"] + ([f"-max_total_time={options.seconds}"] if options.seconds else [])
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in names:
        facts = build_facts(build)
        record = {**run_target(build, name, limits), **facts}
        failed |= record["crashes"] > 0
        print(f"{name}: {record['executions']} executions in {record['seconds']} s, {record['coverage']['edges']} edges, "
              f"{record['crashes']} crashes, peak {record['peak_rss_mib']} MiB", flush=True)
        if options.folder:
            (options.folder / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
