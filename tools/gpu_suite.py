"""The body of gpu_suite.sh."""
import argparse
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
    "memcheck": "CudaTest.*-CudaTest.Gemm",
    "racecheck": "CudaTest.RmsNorm*:CudaTest.CrossEntropy:CudaTest.Embedding*",
    "initcheck": "CudaTest.Rope:CudaTest.Swiglu",
    "synccheck": "CudaTest.RmsNorm*:CudaTest.CrossEntropy:CudaTest.Embedding*",
}


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
            summary = re.findall(r"========= ((?:ERROR|RACECHECK) SUMMARY:.*)", output)
            results[tool] = {"exit_code": code, "tests": tests, "summary": summary[-1:] and summary[-1]}
        return results

    def golden(self):
        """f32 at 1e-4. In bf16 every error at most 1.5 times the CPU's in bf16; that of a single number (loss,
        total_loss) is luck on either side and is held to the CPU's largest error of its kind over all cases."""
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
        numbers = {"loss", "total_loss"}
        largest = max((errors["cpu"][name] for _, errors in records.values() for name in numbers), default=0.0)
        return {name: self.golden_row(name, f32, errors, numbers, largest) for name, (f32, errors) in records.items()}

    def golden_row(self, case, f32, errors, numbers, largest):
        ratios = {}
        for name, error in errors["cuda"].items():
            reference = max(errors["cpu"][name], largest) if name in numbers else errors["cpu"][name]
            ratios[name] = error / reference if reference else 0.0
        worst = max(ratios, key=ratios.get)
        if ratios[worst] > 1.5:
            self.failed.append(f"golden-{case}-bf16: {worst} is {ratios[worst]:.2f} times the CPU's error")
        return {"f32_passed": f32["passed"], "f32_checks": len(f32["checks"]),
                "f32_worst_error": max(c["relative_error"] for c in f32["checks"]),
                "bf16_worst_ratio_to_cpu": ratios[worst], "bf16_worst_check": worst, "engines": f32["engines"]}

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
    parser.add_argument("--only", nargs="*", default=["tests", "sanitizers", "golden", "steps"])
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
