#!/usr/bin/env python3
"""Holds the documents to the tree: every link, path and quotation in docs/*.md and the Markdown files of the root must
be true of the files as they are.

- a relative link `[text](target#heading)` leads to a file, and to a heading of it;
- a path that starts with a folder of the root (`src/ops/gemm.h`, `tests/golden/*/config.json`) exists; so does a header
  or source in backquotes that is written from the include root (`ops/gemm.h`);
- a code block that names its file after the language, as in ```cpp src/ops/gemm.h, occurs in that file: blanks do not
  count, `...` stands for what is left out;
- `Suite.Test` in backquotes names a test of tests/;
- with --program, docs/commands.md names exactly the commands and options that `--help` shows.

Every finding is one line `file:line: what`. Exit code 1 on any.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

FOLDERS = ["src", "apps", "tests", "tools", "docs", "recipes", "evidence", "bench", "python", "cmake"]
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w./-])((?:%s)/[\w./*-]*)" % "|".join(FOLDERS))
CODE_SPAN = re.compile(r"`([^`\n]+)`")
SOURCE = re.compile(r"^[a-z0-9_]+(?:/[a-z0-9_]+)*\.(?:h|cpp|cmake)$")
TEST_NAME = re.compile(r"^[A-Z][A-Za-z0-9]+\.[A-Z][A-Za-z0-9]+$")
TEST_DECLARATION = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)
FENCE = re.compile(r"^\s*```\s*(\w*)\s*(\S*)\s*$")
COMMANDS = "docs/commands.md"
OPTION = re.compile(r"--[a-z][a-z-]*")


def documents(root):
    return sorted([*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("evidence/*.md")])


def heading_anchors(text):
    """The anchors a viewer gives to the headings of a Markdown text."""
    headings = re.findall(r"^#+\s+(.*?)\s*$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def link_finding(root, document, target):
    """Why a link leads nowhere, or None."""
    if re.match(r"^[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    if not path.exists():
        return f"link to {target}: no such file"
    if not path.is_relative_to(root):
        return f"link to {target}: leaves the repository"
    if anchor and anchor not in heading_anchors(path.read_text(encoding="utf-8")):
        return f"link to {target}: no such heading"
    return None


def path_exists(root, path):
    path = path.rstrip(".").rstrip("/")
    return any(root.glob(path)) if "*" in path else (root / path).exists()


def quoted_blocks(lines):
    """(line number, path, text) of each code block that names a file."""
    start, path, body = None, "", []
    for number, line in enumerate(lines, start=1):
        fence = FENCE.match(line)
        if fence and start is None:
            start, path, body = number, fence.group(2), []
        elif fence:
            if path:
                yield start, path, "\n".join(body)
            start = None
        elif start is not None:
            body.append(line)


def squeeze(text):
    return re.sub(r"\s+", "", text)


def quotation_finding(root, path, quoted):
    """Why a quotation is not what the file says, or None."""
    if not (root / path).is_file():
        return f"quotes {path}: no such file"
    source, position = squeeze((root / path).read_text(encoding="utf-8")), 0
    for part in re.split(r"^\s*\.\.\.\s*$", quoted, flags=re.M):
        found = source.find(squeeze(part), position)
        if found < 0:
            first = part.strip().splitlines()[0].strip()
            return f"{path} does not hold the quoted text that starts with `{first}`"
        position = found + len(squeeze(part))
    return None


def declared_tests(root):
    """{"Suite.Test"} of every GoogleTest declaration and every add_test of tests/."""
    declared = {f"{suite}.{test}" for path in root.glob("tests/**/*.cpp")
                for suite, test in TEST_DECLARATION.findall(path.read_text(encoding="utf-8"))}
    return declared.union(*(re.findall(r"add_test\(NAME (\S+)", path.read_text(encoding="utf-8"))
                            for path in root.glob("tests/**/CMakeLists.txt")))


def document_findings(root, document, tests):
    where = document.relative_to(root).as_posix()
    lines = document.read_text(encoding="utf-8").splitlines()
    rooms = {path.name for path in (root / "src").iterdir() if path.is_dir()} if (root / "src").is_dir() else set()
    for number, line in enumerate(lines, start=1):
        for target in LINK.findall(line):
            finding = link_finding(root, document, target)
            if finding:
                yield f"{where}:{number}: {finding}"
        for path in PATH.findall(LINK.sub("", line)):
            if not path_exists(root, path):
                yield f"{where}:{number}: {path} does not exist"
        for span in CODE_SPAN.findall(line):
            if SOURCE.match(span) and span.split("/")[0] in rooms and not (root / "src" / span).is_file():
                yield f"{where}:{number}: src/{span} does not exist"
            if TEST_NAME.match(span) and span not in tests:
                yield f"{where}:{number}: there is no test {span}"
    for number, path, quoted in quoted_blocks(lines):
        finding = quotation_finding(root, path, quoted)
        if finding:
            yield f"{where}:{number}: {finding}"


def help_text(program, command):
    done = subprocess.run([str(program), *command, "--help"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


def program_commands(program, command=()):
    """{("verify", "golden"): {"--backend", ...}} of every command that groups no others."""
    text = help_text(program, command)
    names = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.M)
    if names:
        found = {}
        for name in re.findall(r"^  (\S+)", names.group(1), re.M):
            found.update(program_commands(program, (*command, name)))
        return found
    options = re.search(r"^Options:\n((?:  .*\n)+)", text, re.M)
    lines = re.findall(r"^  ?(-.*)$", options.group(1) if options else "", re.M)
    return {command: {option for line in lines for option in OPTION.findall(line.split()[0])} - {"--help"}}


def described_commands(text):
    """The same from the headings and the option tables of docs/commands.md."""
    commands, current = {}, None
    for line in text.splitlines():
        heading = re.match(r"^## `([a-z ]+)`", line)
        if heading:
            current = commands.setdefault(tuple(heading.group(1).split()), set())
        elif line.startswith("## "):
            current = None
        elif current is not None and line.startswith("| `--"):
            current.update(OPTION.findall(line.split("|")[1]))
    return commands


def command_findings(root, program):
    described = described_commands((root / COMMANDS).read_text(encoding="utf-8"))
    actual = program_commands(program)
    for command in sorted(described.keys() | actual.keys()):
        name = " ".join(command)
        if command not in actual:
            yield f"{COMMANDS}:1: `{name}` is no command of the program"
        elif command not in described:
            yield f"{COMMANDS}:1: the command `{name}` is not described"
        else:
            for option in sorted(described[command] ^ actual[command]):
                fault = "is not described" if option in actual[command] else "is no option of the program"
                yield f"{COMMANDS}:1: `{name}`: {option} {fault}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--program", type=Path, help="an ida-train to compare docs/commands.md with")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    tests = declared_tests(root)
    findings = [finding for document in documents(root) for finding in document_findings(root, document, tests)]
    if arguments.program:
        findings += command_findings(root, arguments.program.resolve())
    for finding in findings:
        print(finding)
    print(f"check_docs: {len(findings)} findings" if findings else "check_docs: links, paths and quotations hold")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
