#!/usr/bin/env python3
"""record_steps.py PROGRAM FOLDER [--threads N] [--tokenizer FILE] [--only SHAPE-RECIPE ...]

Trains a few steps of two shapes on the text of this repository and keeps what the program says about them: FOLDER gets
doctor.json and, per shape and recipe, NAME.json (`train --out`) and NAME.evidence.json. Prints the table of tokens/s.
Run it on a machine that does nothing else. The 135M shape needs a tokenizer of 49,152 tokens; without one it is left out.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT_ENDINGS = {".md", ".h", ".cpp", ".py", ".toml", ".sh", ".txt"}
SHAPES = {
    "quickstart": ["model.preset=tiny", "data.seq_len=256", "train.global_batch_tokens=2048", "train.steps=40"],
    "smollm2-135m-t512": ["model.preset=smollm2-135m", "data.seq_len=512", "train.global_batch_tokens=1024",
                          "train.steps=6"],
}
RECIPES = ["fp32", "bf16"]


def make_corpus(folder: pathlib.Path) -> None:
    folder.mkdir()
    sources = [p for part in ("src", "tests", "docs", "tools") for p in sorted((ROOT / part).rglob("*"))]
    for index, path in enumerate(p for p in sources if p.is_file() and p.suffix in TEXT_ENDINGS):
        shutil.copyfile(path, folder / f"{index:04d}_{path.name}")


def run_shape(program: str, work: pathlib.Path, name: str, settings: list[str], threads: int) -> dict:
    config = work / "run.toml"
    config.write_text("")
    command = [program, "train", str(config), "--threads", str(threads), "--out", str(work / "out.json")]
    base = [f"run.name={name}", f"run.dir={work}/runs", f'data.train=["{work}/corpus"]', "train.save_every=0"]
    for setting in base + settings:
        command += ["--set", setting]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads((work / "out.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--tokenizer")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    options.folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([program, "doctor", "--out", str(options.folder / "doctor.json")], check=True, stdout=subprocess.DEVNULL)
    print("| shape | recipe | threads | tokens/s (median) | engines |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch)
        make_corpus(work / "corpus")
        for shape, settings in SHAPES.items():
            if shape != "quickstart" and not options.tokenizer:
                continue
            tokenizer = [f"tokenizer.path={options.tokenizer}"] if shape != "quickstart" else []
            for recipe in RECIPES:
                name = f"{shape}-{recipe}"
                if options.only and name not in options.only:
                    continue
                extra = [*settings, f"precision.recipe={recipe}"]
                summary = run_shape(program, work, name, [*extra, *tokenizer], options.threads)
                evidence = json.loads((work / "runs" / name / "evidence.json").read_text())
                evidence["run"]["argv"] = ["ida-train", "train", *extra]  # without paths of the machine
                evidence["environment"].pop("hostname", None)
                stem = f"{name}-t{options.threads or 'all'}"
                (options.folder / f"{stem}.json").write_text(json.dumps(summary, indent=2) + "\n")
                (options.folder / f"{stem}.evidence.json").write_text(json.dumps(evidence, indent=2) + "\n")
                engines = ", ".join(f"`{engine}`" for engine in evidence["engines"])
                print(f"| {shape} | {recipe} | {options.threads or 'all'} | {summary['tokens_per_s']:.0f} | {engines} |", flush=True)


if __name__ == "__main__":
    main()
