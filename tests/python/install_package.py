#!/usr/bin/env python3
"""install_package.py VENV BUILD_DIR [--skip-is-success] | install_package.py VENV --run MODULE

Installs the package of this repository with what its tests need into a virtual environment, or runs a test module there.
What comes from PyPI is installed first, so that an unreachable index (exit code 77: skipped; a failure with
IDA_PYTHON_TESTS=required) is told apart from a package that does not build (a failure always). BUILD_DIR is kept, so that
a second install compiles only what changed.
"""
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SKIPPED = 77


def requirements():
    """What pyproject.toml asks for: to build, to run, to test."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [*project["build-system"]["requires"], *project["project"]["dependencies"],
            *project["project"]["optional-dependencies"]["test"]]


def python_of(environment):
    return environment / "bin" / "python"


def install(environment, build_dir):
    if not python_of(environment).is_file():
        venv.create(environment, with_pip=True)
    pip = [str(python_of(environment)), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    if subprocess.run([*pip, "--retries", "2", *requirements()], check=False).returncode != 0:
        required = os.environ.get("IDA_PYTHON_TESTS") == "required"
        print(f"{'FAILED' if required else 'skipped'}: PyPI gave none of {', '.join(requirements())}")
        return 1 if required else SKIPPED
    # --no-build-isolation: with the requirements just installed. The environment's CMake files must be found first.
    return subprocess.run([*pip, "--no-build-isolation", "--no-deps", "--force-reinstall",
                           "--config-settings", f"build-dir={build_dir}", str(ROOT)], check=False).returncode


def run(environment, module):
    installed = python_of(environment).is_file() and subprocess.run(
        [python_of(environment), "-c", "import ida_train, ml_dtypes"], capture_output=True, check=False).returncode == 0
    if not installed:
        print("skipped: the package is not installed, see python.install")
        return 1 if os.environ.get("IDA_PYTHON_TESTS") == "required" else SKIPPED
    return subprocess.run([python_of(environment), "-m", "unittest", module], check=False).returncode


def main(arguments):
    environment = Path(arguments[0]).resolve()
    if arguments[1] == "--run":
        return run(environment, arguments[2])
    code = install(environment, arguments[1])
    return 0 if code == SKIPPED and "--skip-is-success" in arguments else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
