#!/usr/bin/env python3
"""Keeps files and functions short enough to read: a file is aimed at 300 lines and fails past 500, a function is
reported past 60. tools/length_allow.txt lists the exceptions, one `path limit reason` a line; an exception that is no
longer needed fails too, so that the list only shrinks.
"""
import argparse
import ast
import re
import sys
from pathlib import Path

FILE_AIM, FILE_LIMIT, FUNCTION_AIM = 300, 500, 60
TREES = ["src", "apps", "tests", "bench", "tools", "python"]
C_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
SUFFIXES = C_SUFFIXES | {".py", ".sh"}
ALLOW_FILE = "tools/length_allow.txt"

# What may stand between the parameter list and the body of a C++ function.
BODY_HEAD = re.compile(r"\)\s*(const|noexcept|override|final|mutable|&|&&|->\s*[\w:<>,&*\s]+|:\s.*)?\s*"
                       r"(const|noexcept|override|final)?\s*$", re.S)
CONTROL = re.compile(r"(?<![\w.])(if|for|while|switch|catch|else|do|return)\b")
NAME = re.compile(r"([~\w:]+|operator\s*\S+)\s*\(")


def blank_literals(text):
    """The text with comments, strings and characters blanked, line breaks kept."""
    pattern = re.compile(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'', re.S)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), text)


def c_functions(text):
    """(name, first line, last line) of each function body. A scan of braces, not a parser: lambdas and nested blocks
    count with the function around them."""
    text = re.sub(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", lambda found: re.sub(r"[^\n]", " ", found.group(0)),
                  blank_literals(text), flags=re.M)
    depth, start, head_from, line = 0, None, 0, 1
    for index, char in enumerate(text):
        if char == "\n":
            line += 1
        elif start is None and char in ";}":
            head_from = index + 1
        elif start is None and char == "{":
            head = text[head_from:index]
            name = NAME.search(head)
            if name and BODY_HEAD.search(head) and not CONTROL.search(head[:name.end()]):
                start, depth = (name.group(1), line - head[name.start():].count("\n")), 1
            head_from = index + 1
        elif start is not None and char == "{":
            depth += 1
        elif start is not None and char == "}":
            depth -= 1
            if depth == 0:
                yield start[0], start[1], line
                start, head_from = None, index + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def functions_of(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix in C_SUFFIXES:
        return list(c_functions(text))
    return list(python_functions(text)) if path.suffix == ".py" else []


def source_files(root):
    for tree in TREES:
        for path in sorted((root / tree).rglob("*")):
            if path.is_file() and (path.suffix in SUFFIXES or path.parent == root / "tools" and not path.suffix):
                yield path


def read_allowed(root):
    """(path -> limit, findings) of the exceptions."""
    allowed, findings = {}, []
    path = root / ALLOW_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(maxsplit=2)
        if len(fields) < 3 or not fields[1].isdigit():
            findings.append(f"{ALLOW_FILE}:{number}: expected `path limit reason`, got `{line}`")
            continue
        allowed[fields[0]] = int(fields[1])
    return allowed, findings


def check(root):
    """(failures, warnings), each a list of lines."""
    allowed, failures = read_allowed(root)
    warnings = []
    for path in source_files(root):
        where = path.relative_to(root).as_posix()
        count = len(path.read_text(encoding="utf-8").splitlines())
        limit = allowed.pop(where, None)
        if limit is not None and count <= FILE_LIMIT:
            failures.append(f"{ALLOW_FILE}: {where} has {count} lines, its exception is no longer needed")
        if count > (limit or FILE_LIMIT):
            failures.append(f"{where}:1: {count} lines, the limit is {limit or FILE_LIMIT}: split it where its jobs differ")
        elif count > FILE_AIM:
            warnings.append(f"{where}:1: {count} lines, aim at {FILE_AIM}")
        for name, first, last in functions_of(path):
            if last - first + 1 > FUNCTION_AIM:
                warnings.append(f"{where}:{first}: {name} has {last - first + 1} lines, aim at {FUNCTION_AIM}")
    failures.extend(f"{ALLOW_FILE}: {where} does not exist" for where in allowed)
    return failures, warnings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    failures, warnings = check(parser.parse_args().root.resolve())
    for line in warnings:
        print("warning:", line)
    for line in failures:
        print(line)
    print(f"check_lengths: {len(failures)} failures, {len(warnings)} warnings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
