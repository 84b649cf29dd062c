"""The body of gpu_suite.sh."""
import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

import gpu_record

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {
    "ember-30m": ["model.preset=ember-30m", "data.seq_len=1024", "train.global_batch_tokens=262144",
                  "train.micro_batch_sequences=64"],
    "smollm2-135m": ["model.preset=smollm2-135m", "data.seq_len=2048", "train.global_batch_tokens=131072",
                     "train.micro_batch_sequences=16"],
    "smollm2-1.7b": ["model.preset=smollm2-1.7b", "data.seq_len=2048", "train.global_batch_tokens=65536",
                     "train.micro_batch_sequences=8"],
}
SANITIZED = {
    "memcheck": "CudaTest.*:CudaQuantizeTest.Tiles:CudaPackTest.EveryProducerAndFormat-CudaTest.Gemm",
    "racecheck": "CudaTest.RmsNorm*:CudaTest.CrossEntropy:CudaTest.Embedding*:CudaQuantizeTest.Tiles",
    "initcheck": "CudaTest.Rope:CudaTest.Swiglu",
    "synccheck": "CudaTest.RmsNorm*:CudaTest.CrossEntropy:CudaTest.Embedding*:CudaQuantizeTest.Tiles",
}

RUN_CONFIG = """
[run]
name = "whole"
dir = "{folder}"
[model]
preset = "ember-30m"
[data]
train = {texts}
seq_len = 256
[train]
steps = 60
global_batch_tokens = 16384
micro_batch_sequences = 16
save_every = 20
[optim]
lr = 1e-3
[precision]
recipe = "bf16"
[device]
backend = "cuda"
deterministic = true
"""
SANITIZED_CASES = ["llama_packed", "mistral_swa"]


def without_layer(name):
    return re.sub(r"\.layers\.\d+\.", ".layers.N.", name)


class Suite:
    def __init__(self, options):
        self.options = options
        self.folder = pathlib.Path(options.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.failed = []

    def run(self, name, command, limit_s):
        """(exit code, output); output is also kept in FOLDER/NAME.log."""
        start = time.monotonic()
        try:
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s)
            code, output = done.returncode, done.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired as late:
            code, output = 124, (late.stdout or b"").decode(errors="replace")
        (self.folder / f"{name}.log").write_text(output[-200_000:])
        print(f"{'ok' if code == 0 else 'FAILED':<7}{name} ({time.monotonic() - start:.1f} s)", flush=True)
        if code != 0:
            self.failed.append(name)
        return code, output

    def program_json(self, name, arguments, limit_s):
        out = self.folder / f"{name}.json"
        self.run(name, [self.options.program, *arguments, "--out", str(out)], limit_s)
        return json.loads(out.read_text()) if out.exists() else None

    def tests(self):
        code, output = self.run("tests", [self.options.tests], 240)
        count = lambda word: sum(int(n) for n in re.findall(rf"\[  {word}\s*\] (\d+) test", output))
        return {"exit_code": code, "passed": count("PASSED"), "failed": count("FAILED"), "skipped": count("SKIPPED")}

    def sanitizers(self):
        results = {}
        for tool, tests in SANITIZED.items():
            code, output = self.run(f"sanitizer-{tool}", ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9",
                                                          self.options.tests, f"--gtest_filter={tests}"], 150)
            results[tool] = {"exit_code": code, "tests": tests, "summary": self.summary(output)}
            # Attention, packed and with a window, and the library's products, as the engine calls them.
            for case in SANITIZED_CASES:
                code, output = self.run(f"sanitizer-{tool}-{case}",
                                        ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", self.options.program,
                                         "verify", "golden", f"tests/golden/{case}", "--backend", "cuda", "--dtype", "bf16",
                                         "--rtol", "1"], 150)
                results[f"{tool} {case}"] = {"exit_code": code, "summary": self.summary(output)}
        return results

    @staticmethod
    def summary(output):
        found = re.findall(r"========= ((?:ERROR|RACECHECK) SUMMARY:.*)", output)
        return found[-1] if found else ""

    def formats(self):
        """Every code and scale of the golden file, and where NVFP4 stops seeing values."""
        checked = self.program_json("formats", ["verify", "formats", "tests/golden/quant.safetensors", "--backend", "cuda"], 60)
        cliffs = {"-".join(["cliff", *(o.strip("-") for o in options)]): options
                  for options in ([], ["--prescale"], ["--two-level"], ["--outliers", "--prescale"], ["--outliers", "--two-level"])}
        return {"verify": checked, **{name: self.program_json(name, ["probe", "cliff", "--backend", "cuda", *options], 60)
                                      for name, options in cliffs.items()}}

    def golden(self):
        """f32 at 1e-4, bf16 by golden_row."""
        records = {}
        for case in sorted((ROOT / "tests/golden").iterdir()):
            if not (case / "golden.safetensors").exists():
                continue
            verify = ["verify", "golden", f"tests/golden/{case.name}"]
            f32 = self.program_json(f"golden-{case.name}-f32", [*verify, "--backend", "cuda", "--rtol", "1e-4"], 60)
            errors = {}
            for backend in ("cuda", "cpu"):
                record = self.program_json(f"golden-{case.name}-bf16-{backend}",
                                           [*verify, "--backend", backend, "--dtype", "bf16", "--rtol", "1"], 60)
                errors[backend] = {c["name"]: c.get("relative_error") for c in record["checks"]}
            records[case.name] = (f32, errors)
        return {name: self.golden_row(name, f32, errors, records) for name, (f32, errors) in records.items()}

    def golden_row(self, case, f32, errors, records):
        """bf16: within the check's bar for f32, or at most 1.5 times the CPU's error in bf16. An error of few values is luck
        on either side, so that of a loss is held to the CPU's largest of the same check over all cases, that of a vector
        (a bias, the weights of a norm) to its largest of the same parameter over the layers of the case."""
        def reference(name):
            if not name.startswith("grad.") and name != "logits":
                return max(other["cpu"].get(name, 0.0) for _, other in records.values())
            if name.endswith((".bias", "norm.weight")):
                return max(e for other, e in errors["cpu"].items() if without_layer(other) == without_layer(name))
            return errors["cpu"][name]

        bars = {c["name"]: c["tolerance"] for c in f32["checks"]}
        ratios = {name: error / max(reference(name), bars[name] / 1.5) for name, error in errors["cuda"].items()}
        worst = max(ratios, key=ratios.get)
        if ratios[worst] > 1.5:
            self.failed.append(f"golden-{case}-bf16: {worst} is {ratios[worst]:.2f} times the CPU's error")
        return {"f32_passed": f32["passed"], "f32_checks": len(f32["checks"]),
                "f32_worst_error": max(c["relative_error"] for c in f32["checks"]),
                "bf16_worst_ratio_to_cpu": ratios[worst], "bf16_worst_check": worst, "bf16_errors": errors, "engines": f32["engines"]}

    def benches(self):
        """Each op against the ceiling that the same run measured."""
        results = {}
        for name, arguments in {
                "pack": [], "attention": [], "gemm-with-pack": ["--with-pack"],
                "gemm-135m": ["--set", "model.preset=smollm2-135m", "--set", "data.seq_len=2048",
                              "--set", "train.micro_batch_sequences=16", "--set", "train.global_batch_tokens=32768"],
                "gemm-1.7b": ["--set", "model.preset=smollm2-1.7b", "--set", "data.seq_len=2048",
                              "--set", "train.micro_batch_sequences=8", "--set", "train.global_batch_tokens=16384"]}.items():
            if name.startswith("gemm") and "--with-pack" not in arguments:
                arguments = ["--set", 'precision.recipe="bf16"', "--set", "train.steps=1", *arguments]
            results[name] = self.program_json(f"bench-{name}", ["bench", name.split("-")[0], *arguments],
                                              300 if name == "pack" else 150)
        return results

    def runs(self):
        """Whole runs: train, stop by SIGTERM, resume, evaluate, generate; with device.deterministic the resumed run ends in
        the bytes of one that was not stopped."""
        folder = self.folder / "runs"
        config = folder / "run.toml"
        folder.mkdir(exist_ok=True)
        config.write_text(RUN_CONFIG.format(folder=folder, texts=json.dumps([str(f.relative_to(ROOT)) for f in sorted(ROOT.glob("docs/*.md"))])))
        train = [self.options.program, "train", str(config)]
        self.run("train-whole", [*train, "--set", "run.name=whole"], 120)
        stopped = subprocess.Popen([*train, "--set", "run.name=stopped"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        metrics = folder / "stopped/metrics.jsonl"
        for _ in range(600):
            if metrics.exists() and metrics.read_text().count("\n") >= 8:
                break
            time.sleep(0.1)
        stopped.terminate()
        code = stopped.wait(60)
        self.run("train-resumed", [*train, "--set", "run.name=stopped"], 120)
        last = sorted((folder / "whole/checkpoints").glob("step-*"), key=lambda f: int(f.name[5:]))[-1].name
        weights = {name: hashlib.sha256((folder / name / "checkpoints" / last / "model.safetensors").read_bytes()).hexdigest()
                   for name in ("whole", "stopped")}
        model = str(folder / "whole/checkpoints" / last)
        ppl = self.program_json("eval", ["eval", "ppl", "--model", model, "--text", "README.md", "--window", "128"], 60)
        text = self.program_json("generate", ["generate", "--model", model, "--prompt", "The ", "--max-new-tokens", "16"], 60)
        if code != 75 or weights["whole"] != weights["stopped"]:
            self.failed.append(f"resume: exit code {code}, weights {weights}")
        evidence = json.loads((folder / "whole/evidence.json").read_text())
        window = evidence.get("kernel_window", {})
        if window.get("step", 0) == 0 or window.get("differences"):
            self.failed.append(f"kernel window: {window.get('absent')} {window.get('differences')}")
        losses = [json.loads(line).get("loss") for line in (folder / "whole/metrics.jsonl").read_text().splitlines()]
        return {"stopped_exit_code": code, "weights_sha256": weights, "first_loss": losses[0], "last_loss": losses[-1],
                "eval": ppl, "generate": text, "evidence": evidence}

    def steps(self):
        results = {}
        for shape, settings in SHAPES.items():
            arguments = ["bench", "step", "--set", 'precision.recipe="bf16"', "--set", "train.steps=100"]
            for setting in settings:
                arguments += ["--set", setting]
            own = self.program_json(f"step-{shape}", arguments + ["--steps", "5", "--warmup", "3"], 120)
            peer_out = self.folder / f"torch-{shape}.json"
            peer = None
            if not self.options.quick:
                self.run(f"torch-{shape}", [sys.executable, "bench/peers/torch_decoder.py", "--shape", shape, "--steps", "5",
                                            "--warmup", "3", "--compile", *self.options.compile, "--attention", "cudnn",
                                            "--out", str(peer_out)], 200)
                peer = json.loads(peer_out.read_text()) if peer_out.exists() else None
            results[shape] = {"own": own, "torch": peer}
            if shape == "smollm2-135m":  # what packing and determinism do to the time
                for variant, more in {"8 documents a row": ["--documents", "8"],
                                      "deterministic": ["--set", "device.deterministic=true"],
                                      "without graphs": ["--set", "device.graphs=false"]}.items():
                    name = f"step-{shape}-{variant.replace(' ', '-')}"
                    results[shape][variant] = self.program_json(
                        name, arguments + ["--steps", "5", "--warmup", "3", *more], 120)
            if own and peer:
                best = max(r["tokens_per_s"] for r in peer["results"])
                results[shape]["ratio"] = own["tokens_per_s"] / best
                print(f"       {shape}: {own['tokens_per_s']:.0f} tokens/s, torch {best:.0f}, ratio "
                      f"{results[shape]['ratio']:.3f}", flush=True)
        return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("tests")
    parser.add_argument("folder")
    parser.add_argument("--quick", action="store_true", help="no PyTorch")
    parser.add_argument("--only", nargs="*", default=["tests", "sanitizers", "golden", "formats", "runs", "benches", "steps"])
    parser.add_argument("--compile", nargs="*", default=["default"], help="torch.compile modes; the best counts")
    options = parser.parse_args()
    suite = Suite(options)
    record = {"command": "tools/gpu_suite.sh " + " ".join(sys.argv[1:]), "doctor": suite.program_json("doctor", ["doctor"], 60),
              "driver": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                                       stdout=subprocess.PIPE).stdout.decode().strip(),
              "sources": gpu_record.source_hashes(ROOT)}
    for part in options.only:
        record[part] = getattr(suite, part)()
    record["failed"] = suite.failed
    (suite.folder / "gpu_suite.json").write_text(json.dumps(record, indent=1) + "\n")
    for failure in suite.failed:
        print(f"FAILED {failure}")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
