#!/usr/bin/env python3
"""Runs the blocks of Python and SQL in docs/coming_from.md, in their order, and prints TAP.

What a block prints must be what the page shows below it, indented by four spaces, and a page that
shows nothing there promises nothing.  The environment names the server and an empty database.
"""
import contextlib
import io
import os
import re
import subprocess
import traceback

PAGE = "docs/coming_from.md"
PSQL = os.environ.get("PSQL", "psql")
BLOCK = re.compile(r"^```(python|sql)\n([\s\S]*?)^```\n(?:\n((?: {4}.*\n|\n(?= {4}))+))?", re.MULTILINE)


def normal(text):
    """The lines of an output, without what psql adds for the eye."""
    lines = [re.sub(r"^ {4}", "", line) if text.startswith("    ") else line for line in text.split("\n")]
    return [line.strip() for line in lines if line.strip() and not re.fullmatch(r"\(\d+ rows?\)", line.strip())]


def run_python(code, names):
    """What a block of Python prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, PAGE, "exec"), names)
    return printed.getvalue()


def run_sql(code):
    """What psql prints for a block of SQL."""
    done = subprocess.run([PSQL, "-X", "-q", "-v", "ON_ERROR_STOP=1"], input=code, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def outputs(text):
    """The blocks of a page, with the number of their line, what they should print and what they print."""
    names = {}
    for block in BLOCK.finditer(text):
        language, code, shown = block.groups()
        line = text.count("\n", 0, block.start()) + 1
        try:
            printed = run_python(code, names) if language == "python" else run_sql(code)
        except Exception:
            printed = traceback.format_exc()
            shown = shown or "no error"
        yield line, block, shown, printed


def main():
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    print(f"1..{len(BLOCK.findall(text))}")
    for number, (line, _, shown, printed) in enumerate(outputs(text), 1):
        right = shown is None or normal(shown) == normal(printed)
        print(f"{'ok' if right else 'not ok'} {number} - {PAGE}, line {line}", flush=True)
        if not right:
            print("\n".join("# " + message for message in ["shown:"] + normal(shown) + ["printed:"] + normal(printed)))


if __name__ == "__main__":
    main()
