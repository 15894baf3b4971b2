#!/usr/bin/env python3
"""Runs the blocks of SQL and Python in pages of documentation, in their order, and prints TAP.

pages.py PAGE ...: what a block prints must be what the page shows right below it, indented by four
spaces.  A block without such lines must only succeed.  A page has one session, and one namespace of
Python.  Its first DROP statements must drop every table and view that it leaves.  PSQL names psql,
and the environment an empty database.  Run from the top of the sources.
"""
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback

BLOCK = re.compile(r"^```(python|sql)\n([\s\S]*?)^```\n(?:\n((?: {4}.*\n|\n(?= {4}))+))?", re.MULTILINE)
DROPS = re.compile(r"(?:^(?: {4})?DROP [^;]*;\n)+|\Z", re.MULTILINE)
END = "end of the block"
REFUSE_REST = """
DO $$
DECLARE
    rest text := string_agg(oid::regclass::text, ', ') FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'm')
        AND oid NOT IN (SELECT objid FROM pg_depend WHERE classid = 'pg_class'::regclass AND deptype = 'e');
BEGIN
    IF rest IS NOT NULL THEN
        RAISE 'the page leaves %', rest;
    END IF;
END $$;"""


class PsqlError(Exception):
    """What psql said before it ended."""


class Psql:
    """A session of psql that runs one block after the other."""

    def __init__(self):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([os.environ.get("PSQL", "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def run(self, code):
        """What psql prints for a block."""
        try:
            self.process.stdin.write(f"{code}\n\\echo {END}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise PsqlError("psql has ended") from None
        printed = []
        for line in self.process.stdout:
            if line.rstrip("\n") == END:
                return "".join(printed)
            printed.append(line)
        self.errors.seek(0)
        raise PsqlError("\n".join(self.errors.read().splitlines()[-10:]))


def run_python(code, names):
    """What a block of Python prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def lines_of(text):
    """The lines of an output, without those that psql adds."""
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line and not re.fullmatch(r"\(\d+ rows?\)", line)]


def outputs(text):
    """The blocks of a page and its DROPs, with what each printed, or the error that it ended with."""
    psql, names = Psql(), {}
    for block in BLOCK.finditer(text):
        language, code, _ = block.groups()
        try:
            yield block, run_python(code, names) if language == "python" else psql.run(code), None
        except PsqlError as error:
            yield block, "", str(error)
        except Exception:
            yield block, "", traceback.format_exc()
    drops, error = DROPS.search(text), None
    try:
        psql.run(drops.group() + REFUSE_REST)
    except PsqlError as refused:
        error = str(refused)
    yield drops, "", error
    psql.process.kill()
    psql.process.wait()


def main():
    texts = {}
    for page in sys.argv[1:]:
        with open(page, encoding="utf-8") as file:
            texts[page] = file.read()
    print(f"1..{sum(len(BLOCK.findall(text)) + 1 for text in texts.values())}")
    number = 0
    for page, text in texts.items():
        for block, printed, error in outputs(text):
            number += 1
            shown = block.group(3) if block.re is BLOCK else None
            right = error is None and (shown is None or lines_of(shown) == lines_of(printed))
            line = text.count("\n", 0, block.start()) + 1
            print(f"{'ok' if right else 'not ok'} {number} - {page}, line {line}", flush=True)
            if not right:
                wrong = error or f"the page shows\n{shown}the block prints\n{printed}"
                print(re.sub("^", "# ", wrong.rstrip("\n"), flags=re.MULTILINE))


if __name__ == "__main__":
    main()
