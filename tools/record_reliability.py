#!/usr/bin/env python3
"""record_reliability.py PROGRAM FOLDER [--sweep TEST_PROGRAM] [--short] [--seed N]

Kills, stops, damages and starves runs of the program at random and demands that each ends as if nothing had happened:
same weights, moments, random state, cursor and losses, bit for bit. FOLDER gets doctor.json and reliability.json, and
the table for docs/reliability.md is printed. --sweep runs the sweeps of every file operation of that test program in
full, which writes sweep.json. --short takes a few of each, for the tests. --table FOLDER prints the table of a record
and does nothing else.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS, SAVE_EVERY = 60, 5
WORDS = "river stone cloud walks sings under over the quiet .".split()
CONFIG = f"""
[run]
name = "run"
[model]
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
[tokenizer]
vocab_size = 280
[data]
train = ["corpus"]
valid = ["valid.txt"]
seq_len = 32
[train]
steps = {STEPS}
global_batch_tokens = 256
micro_batch_sequences = 4
eval_every = 5
save_every = {SAVE_EVERY}
keep_last = 2
sample_every = 10
sample_tokens = 8
[precision]
recipe = "fp32"
"""
SIGNALLED_BEFORE_HANDLER = -signal.SIGTERM


class Failed(Exception):
    """The program did not do what this tool demands."""


def demand(condition, text):
    if not condition:
        raise Failed(text)


class Place:
    """A folder with the texts and the configuration, in which the program runs."""

    def __init__(self, program: str, folder: pathlib.Path):
        self.program, self.folder, self.log = program, folder, folder / "stderr"
        (folder / "corpus").mkdir(parents=True)
        words = random.Random(1)
        for name in [*(f"corpus/{i}.txt" for i in range(6)), "valid.txt"]:
            text = " ".join(words.choice(WORDS) for _ in range(800))
            (folder / name).write_text(text)
        (folder / "run.toml").write_text(CONFIG)

    @property
    def run(self):
        return self.folder / "runs/run"

    @property
    def checkpoints(self):
        return self.run / "checkpoints"

    def forget(self):
        shutil.rmtree(self.folder / "runs", ignore_errors=True)

    def start(self, *settings):
        command = [self.program, "train", "run.toml", "--threads", "1"]
        for setting in settings:
            command += ["--set", setting]
        with open(self.log, "wb") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=log)

    def said(self):
        return self.log.read_text(errors="replace")

    def finish(self):
        code = self.start().wait()
        demand(code == 0, f"resume ended with {code}: {self.said()}")

    def end(self):
        """Hash of everything that must not depend on interruptions."""
        last, total = self.checkpoints / f"step-{STEPS}", hashlib.sha256()
        for name in ("model.safetensors", "optim.safetensors"):
            total.update((last / name).read_bytes())
        state = json.loads((last / "state.json").read_text())
        del state["elapsed_s"]
        total.update(json.dumps(state, sort_keys=True).encode())
        for line in (self.run / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            kept = {key: row[key] for key in sorted(row) if key not in ("elapsed_s", "tokens_per_s")}
            total.update(json.dumps(kept).encode())
        return total.hexdigest()

    def phase(self):
        """What the run was doing, from what it had written."""
        if (self.checkpoints / f"step-{STEPS}").exists():
            return "end"
        if (self.run / "metrics.jsonl").exists():
            return "save" if any(self.checkpoints.glob(".*.saving")) else "steps"
        return "build" if self.run.exists() else "load"


def interruptions(place, chance, count, number, duration_s, expected):
    """`count` runs that get a signal at a random time and are then taken to their end."""
    codes, phases, grace_s = {}, {}, []
    for _ in range(count):
        place.forget()
        process = place.start()
        time.sleep(chance.uniform(0.0, duration_s))
        phase, sent = place.phase(), time.monotonic()
        process.send_signal(number)
        code = process.wait()
        grace_s.append(time.monotonic() - sent)
        allowed = (0, -number) if number == signal.SIGKILL else (0, 75, SIGNALLED_BEFORE_HANDLER)
        demand(code in allowed, f"signal {number}: exit code {code}: {place.said()}")
        if code == 75 and phase in ("steps", "save"):
            demand((place.checkpoints / "latest").exists(), "exit code 75 without a checkpoint")
        codes[str(code)] = codes.get(str(code), 0) + 1
        phases[phase] = phases.get(phase, 0) + 1
        place.finish()
        demand(place.end() == expected, f"signal {number} in phase {phase}: the end differs")
    return {"runs": count, "exit_codes": codes, "phases": phases, "longest_exit_s": round(max(grace_s), 3),
            "ends_equal": count}


def second_signals(place, count):
    """Two signals in a row end a run at once, whatever it does."""
    longest = 0.0
    for _ in range(count):
        place.forget()
        process = place.start("train.global_batch_tokens=1048576", "train.steps=1")  # one long step
        while not (place.run / "metrics.jsonl").exists():
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        demand(process.poll() is None, "the step was too short for this test")
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait()
        longest = max(longest, time.monotonic() - sent)
        demand(code == 128 + signal.SIGTERM, f"second signal: exit code {code}")
    return {"runs": count, "longest_exit_s": round(longest, 3)}


def two_starts(place, count):
    """Of two starts at the same time exactly one goes on."""
    longest = 0.0
    for _ in range(count):
        place.forget()
        begun = time.monotonic()
        pair = [place.start("train.steps=1000000", "train.keep_last=1") for _ in range(2)]
        while all(process.poll() is None for process in pair):
            demand(time.monotonic() - begun < 10, "two runs in one folder")
            time.sleep(0.002)
        longest = max(longest, time.monotonic() - begun)
        loser = 0 if pair[0].poll() is not None else 1
        demand(pair[loser].wait() == 1, f"the refused start ended with {pair[loser].returncode}: {place.said()}")
        time.sleep(0.2)
        demand(pair[1 - loser].poll() is None, f"both starts ended: {place.said()}")
        pair[1 - loser].terminate()
        demand(pair[1 - loser].wait() in (75, SIGNALLED_BEFORE_HANDLER), place.said())
    return {"pairs": count, "longest_refusal_s": round(longest, 3)}


def damages(place, chance, num_flips, cut_bytes, expected):
    """Flipped bits and cuts of the newest checkpoint: each found by name, the older one taken."""
    place.forget()
    place.finish()
    last = place.checkpoints / f"step-{STEPS}"
    files = {path.name: path.read_bytes() for path in sorted(last.iterdir())}
    names, sizes = list(files), [len(data) for data in files.values()]

    def found(name, data, how):
        (last / name).write_bytes(data)
        command = [place.program, "verify", "checkpoint", str(last)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        demand(done.returncode == 4 and name in done.stderr, f"{name} {how}: {done.returncode}: {done.stderr}")

    resumed = num_cuts = 0
    for index in range(num_flips):
        name = chance.choices(names, sizes)[0] if index % 2 == 0 else names[index % len(names)]
        bit = chance.randrange(8 * len(files[name]))
        bad = bytearray(files[name])
        bad[bit // 8] ^= 1 << bit % 8
        found(name, bytes(bad), f"bit {bit}")
        if index % 50 == 0:  # and a run passes over it
            place.finish()
            older = f"resuming after step {STEPS - SAVE_EVERY}"
            demand("passed over" in place.said() and older in place.said(), place.said())
            demand(place.end() == expected, f"{name} bit {bit}: the end differs")
            files = {path.name: path.read_bytes() for path in sorted(last.iterdir())}  # it has another elapsed_s
            resumed += 1
        (last / name).write_bytes(files[name])
    for name, data in files.items():
        for size in range(0, len(data), cut_bytes):
            found(name, data[:size], f"cut to {size} bytes")
            num_cuts += 1
        (last / name).write_bytes(data)
    return {"bit_flips": num_flips, "bit_flips_found": num_flips, "cuts": num_cuts, "cuts_found": num_cuts,
            "cut_bytes": cut_bytes, "runs_that_took_the_older_one": resumed}


def fill(path):
    """Takes every free byte of the file system."""
    with open(path, "wb", buffering=0) as filler:
        for block in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    filler.write(b"x" * block)
            except OSError:
                pass


def wait_for(condition, process, what):
    begun = time.monotonic()
    while not condition():
        demand(process.poll() is None and time.monotonic() - begun < 60, f"waiting for {what}")
        time.sleep(0.002)


def full_disk(program, folder, expected):
    """On a small file system of its own: full for a while, and full to the end. Prints the counts as JSON."""
    place = Place(program, folder / "place")
    inner_log, place.log = place.log, folder.parent / "stderr"
    filler = folder / "filler"

    def start_and_fill():
        process = place.start()
        wait_for(lambda: (place.checkpoints / "step-5").exists(), process, "the first checkpoint")
        os.kill(process.pid, signal.SIGSTOP)
        fill(filler)
        os.kill(process.pid, signal.SIGCONT)
        return process

    process = start_and_fill()
    wait_for(lambda: place.said().count("warning: checkpoint") > 1, process, "two failed saves")
    filler.unlink()
    demand(process.wait() == 0, f"a full disk ended the run: {place.said()}")
    demand(place.end() == expected, "full for a while: the end differs")
    warnings = place.said().count("warning: checkpoint")
    for log in (place.log, inner_log):  # with the log on the full disk, too
        place.log = log
        place.forget()
        code = start_and_fill().wait()
        demand(code == 1, f"full to the end: exit code {code}: {place.said()}")
        demand(log == inner_log or "could not be saved" in place.said(), place.said())
        newest = [program, "verify", "checkpoint", str(place.checkpoints / "latest")]
        verified = subprocess.run(newest, capture_output=True, check=False)
        demand(verified.returncode == 0, "the last good checkpoint is damaged")
        left = [path.name for path in place.checkpoints.iterdir() if path.name.endswith(".saving")]
        demand(not left, f"full to the end: {left} left behind")
        filler.unlink()
        place.finish()
        demand(place.end() == expected, "full to the end, then resumed: the end differs")
    print(json.dumps({"runs": 3, "saves_that_failed_and_were_tried_again": warnings,
                      "exit_code_when_the_last_save_fails": code}))


def full_disk_in_namespace(program, work, expected):
    mounted = work / "small"
    mounted.mkdir()
    script = 'mount -t tmpfs -o size=64M none "$1" && exec "$2" "$3" "$4" "$1" --full-disk "$5"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(mounted), sys.executable, __file__, program, expected]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and ("unshare" in done.stderr or "mount:" in done.stderr):
        return {"runs": 0, "why": "no file system of its own can be mounted here"}
    demand(done.returncode == 0, f"full disk: {done.stderr}")
    return json.loads(done.stdout)


def full_sweep(test_program, out):
    """The test program writes `out` itself: operations and points by variant, phase and fault."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", IDA_RELIABILITY_SWEEP="full",
                       IDA_RELIABILITY_OUT=str(out.resolve()))
    command = [test_program, "--gtest_filter=*FaultSweep*"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    demand(done.returncode == 0, done.stdout[-3000:])


def table(folder):
    record, sweep_file = json.loads((folder / "reliability.json").read_text()), folder / "sweep.json"
    rows = []
    if sweep_file.exists():
        phases = [phase for variant in json.loads(sweep_file.read_text()).values() for phase in variant.values()]
        operations = sum(phase["operations"] for phase in phases)
        points = sum(sum(phase["points"].values()) for phase in phases)
        rows.append(("file operations of starts, saves and resumes, each failing, torn or the last",
                     f"{operations:,} operations, {points:,} points", "all end bit for bit as undisturbed"))
    for key, name in (("sigkill", "SIGKILL at random times"), ("sigterm", "SIGTERM at random times")):
        part = record[key]
        rows.append((name, f"{part['runs']}",
                     f"{part['ends_equal']} resumed to the same bits; longest exit {part['longest_exit_s']} s"))
    second = record["second_signal"]
    rows.append(("second signal during a step", f"{second['runs']}", f"exit within {second['longest_exit_s']} s"))
    damage = record["damage"]
    rows.append(("single flipped bits", f"{damage['bit_flips']:,}", f"{damage['bit_flips_found']:,} found, file named"))
    rows.append((f"cuts at every {damage['cut_bytes'] // 1024} KiB of every file", f"{damage['cuts']:,}",
                 f"{damage['cuts_found']:,} found, file named"))
    full = record["full_disk"]
    if full["runs"]:
        rows.append(("full disk", f"{full['runs']}",
                     f"run went on over {full['saves_that_failed_and_were_tried_again']} failed saves; exit "
                     f"{full['exit_code_when_the_last_save_fails']} where the last one fails, last good intact"))
    pairs = record["two_starts"]
    rows.append(("two starts at once", f"{pairs['pairs']}",
                 f"one refused each time, within {pairs['longest_refusal_s']} s"))
    return ["| what happened | times | result |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--sweep")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--full-disk", help=argparse.SUPPRESS)  # inside the file system that full_disk_in_namespace made
    options = parser.parse_args()
    if options.table:
        print("\n".join(table(options.table)))
        return 0
    program = str(pathlib.Path(options.program).resolve())
    try:
        if options.full_disk:
            full_disk(program, options.folder, options.full_disk)
            return 0
        kills, stops, flips, cut, pairs = (2, 4, 30, 1 << 16, 2) if options.short else (20, 50, 1000, 1 << 12, 100)
        options.folder.mkdir(parents=True, exist_ok=True)
        doctor = [program, "doctor", "--out", str(options.folder / "doctor.json")]
        subprocess.run(doctor, check=True, stdout=subprocess.DEVNULL)
        chance = random.Random(options.seed)
        short = " --short" if options.short else ""
        record = {"command": f"tools/record_reliability.py build/ida-train FOLDER{short} --seed {options.seed}",
                  "steps": STEPS}
        with tempfile.TemporaryDirectory() as scratch:
            work = pathlib.Path(scratch)
            place = Place(program, work / "place")
            begun = time.monotonic()
            place.finish()
            duration_s, expected = time.monotonic() - begun, place.end()
            record["undisturbed_s"], record["end_sha256"] = round(duration_s, 3), expected
            record["sigkill"] = interruptions(place, chance, kills, signal.SIGKILL, duration_s, expected)
            record["sigterm"] = interruptions(place, chance, stops, signal.SIGTERM, duration_s, expected)
            record["second_signal"] = second_signals(place, 1 if options.short else 10)
            record["two_starts"] = two_starts(place, pairs)
            record["damage"] = damages(place, chance, flips, cut, expected)
            record["full_disk"] = full_disk_in_namespace(program, work, expected)
        (options.folder / "reliability.json").write_text(json.dumps(record, indent=2) + "\n")
        if options.sweep:
            full_sweep(str(pathlib.Path(options.sweep).resolve()), options.folder / "sweep.json")
        print("\n".join(table(options.folder)))
        return 0
    except Failed as failure:
        print(f"record_reliability: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
