"""Results in the form of TAP."""

count = failures = 0


def result(good, name, why=""):
    """Prints one result."""
    global count, failures
    count += 1
    failures += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)
    for line in str(why).splitlines() if not good else []:
        print(f"# {line[:2000]}", flush=True)


def finish():
    """Prints how many results there are; the exit status of the program."""
    print(f"1..{count}")
    return 1 if failures else 0
