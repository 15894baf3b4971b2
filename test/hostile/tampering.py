"""Values that the owner of a model may set by hand, in place of those that gkmeans wrote: the grammar of tampered.py.

Everything is a text for PostgreSQL to read, so that NaN, lower bounds and numbers beyond its types can be said.
"""

import json
import math

NUMBERS = ["NaN", "Infinity", "-Infinity", "1e308", "-1e308", "1.7e308", "3e38", "1e154", "1e-320", "0", "-0", "1", "-1", "0.5", "2147483647", "1e30"]
INTEGERS = ["0", "-1", "1", "2", "3", "4", "7", "64", "65535", "65536", "2147483647", "-2147483648"]
WIDE = INTEGERS + ["4611686018427387904", "9223372036854775807", "-9223372036854775808"]
TEXTS = ["", " ", "x", "y", "a", "fitted", "running", "failed", "checked", "lost", "imported", "cosine", "euclidean", "manhattan", "1", "NaN", "null",
         "%s%n%d", "<b>'\"&", "\\", "\n\t", "\u00e4\u4e2d\U0001f600", "}{", "x" * 63, "y" * 64, "z" * 5000, "m" * 1048577]
TIMES = ["infinity", "-infinity", "4713-01-01 BC", "294276-12-31", "epoch", "now"]
EXTREMES = ["NaN", "Infinity", "1e308", "1e308", "3e38", "1e-320", "0", "-1"]
# What the arithmetic reads, and that it reads most.
READ = ("k dimension metric features array_column shift scale_offset scale_factor feature_mean feature_deviation feature_least feature_greatest"
        " centroids centroids centroids points points points ties cluster_ids names sizes weights inertias avg_distances radii deviations score_quantiles"
        " map_x map_y sample_points").split()
LIKELY = {"status": TEXTS[5:11], "metric": TEXTS[11:14]}
# JSON that Python does not write: a placeholder, and what stands for it.
ODD_JSON = {"@huge@": "1e400", "@vast@": "1e3000", "@tiny@": "1e-400", "@deep@": "[" * 2000 + "]" * 2000}
LONGEST = 4_000_000
KEYS = ["k", "seed", "scale", "metric", "source", "features", "options", "search_path", "version", "centroids", "", "x" * 300]


def quoted(text):
    """A constant of SQL."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def element(value):
    """An element of an array's text."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(element(each) for each in value) + "}"
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def depth_of(value):
    """The dimensions of an array."""
    return 1 + depth_of(value[0]) if isinstance(value, list) and value else int(isinstance(value, list))


def flat(value):
    """The elements of an array, without its dimensions."""
    return [each for part in value for each in flat(part)] if isinstance(value, list) else [value]


def shaped(elements, like):
    """The same number of elements in the dimensions of another array."""
    if not isinstance(like, list):
        return elements.pop(0)
    return [shaped(elements, part) for part in like]


def some_element(dice, kind):
    """An element of an array of this type."""
    return dice.choice({"integer": INTEGERS, "bigint": WIDE, "text": TEXTS}.get(kind, NUMBERS) + [None])


def tampered_array(dice, value, kind):
    """The text of an array that was made from another one; None for NULL."""
    way = dice.randrange(16)
    if way == 0 or (value is None and way < 4):
        return None
    value = value or [some_element(dice, kind) for _ in range(dice.choice([1, 2, 3, 6, 47]))]
    elements = flat(value)
    one = some_element(dice, kind)
    if way == 1:
        value = []
    elif way in (2, 3, 4):
        for _ in range(dice.choice([1, 1, 2])):
            elements[dice.randrange(len(elements))] = one
        value = shaped(elements, value)
    elif way in (5, 6):
        value = shaped([one] * len(elements), value)
    elif way == 7:
        value = value[:-1]
    elif way == 8:
        value = value + value[:1]
    elif way == 9:
        value = [value] if depth_of(value) < 6 else value[0]
    elif way == 10:
        value = elements
    elif way == 11:
        value = shaped(elements[::-1], value)
    elif way == 12:
        value = shaped([elements[0]] * len(elements), value)
    elif way == 13:
        value = [[each] for each in elements] if dice.random() < 0.5 else [elements]
    elif way == 14:
        value = value * dice.choice([2, 10] if kind == "text" else [2, 10, 1000])
    elif kind not in ("integer", "bigint", "text"):
        value = shaped([None if each is None else float(each) * dice.choice([1e300, 1e38, 1e-300, -1]) for each in elements], value)
    bounds = ""
    if way == 15 and value and None not in flat(value):
        bounds, part = "", value
        while isinstance(part, list):
            lower = dice.choice([-2147483648, -1, 0, 2, 1000000])
            bounds += f"[{lower}:{lower + len(part) - 1}]"
            part = part[0]
        bounds += "="
    return bounds + element(value)


def extreme(dice, column, kind, value):
    """An expression for a column: what arithmetic fails at, in a value that is whole otherwise."""
    if value is None or not kind.endswith("[]") or kind == "text[]" or dice.random() < 0.1:
        return "NULL" if dice.random() < 0.5 else tampered(dice, column, kind, value)
    elements = flat(value)
    one = dice.choice(EXTREMES if kind[0] in "dr" else ["0", "-1", "2147483647"])
    other = one.removeprefix("-") if one.startswith("-") or one == "NaN" or kind[0] not in "dr" else "-" + one
    which = dice.randrange(4)
    if which == 0:
        elements[dice.randrange(len(elements))] = one
    else:
        elements = [[one, one], [one, other], [other, one]][which - 1] * (len(elements) // 2 + 1)
    return f"{quoted(element(shaped(elements, value)))}::{kind}"


def some_json(dice):
    """A value of JSON."""
    return dice.choice([None, True, False, {}, [], "", "text", "NaN", "1", 0, -1, 1, 2.5, 1e308, -1e308, 2**31 - 1, 2**31, 2**62, 2**64,
                        [[1]], [None], {"": {}}, *ODD_JSON, "m" * 3000, list(range(1000))])


def places(value, path=()):
    """The paths of everything inside a value of JSON."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def tampered_json(dice, value):
    """The text of a value of JSON that was made from another one; None for NULL."""
    if dice.random() < 0.15:
        value = some_json(dice)
        return None if value is None else written(value)
    value = json.loads(json.dumps(value))
    if not list(places(value)):
        value = {dice.choice(KEYS): some_json(dice)}
    for _ in range(dice.choice([1, 1, 2, 3])):
        paths = list(places(value))
        if not paths:
            break
        *path, last = dice.choice(paths)
        inner = value
        for key in path:
            inner = inner[key]
        way = dice.randrange(6)
        if way == 0:
            del inner[last]
        elif way == 1 and isinstance(inner, dict):
            inner[dice.choice(KEYS)] = inner.pop(last)
        elif way == 1:
            inner.extend(inner * dice.choice([1, 100]))
        elif way == 2:
            inner[last] = str(inner[last])
        elif way == 3:
            inner[last] = [inner[last]] * dice.choice([1, 2, 100])
        else:
            inner[last] = some_json(dice)
    return written(value)


def written(value):
    """JSON as a text, with what Python cannot write."""
    text = json.dumps(value)
    for placeholder, odd in ODD_JSON.items():
        text = text.replace(f'"{placeholder}"', odd)
    return text


def tampered(dice, column, kind, value):
    """An expression of SQL for a column of a type that has this value."""
    if kind.endswith("[]"):
        text = tampered_array(dice, value, kind[:-2])
    elif kind == "jsonb":
        text = tampered_json(dice, value)
    elif dice.random() < 0.12:
        text = None
    elif kind == "text":
        text = dice.choice(LIKELY.get(column, TEXTS) if dice.random() < 0.5 else TEXTS)
    elif kind == "boolean":
        text = dice.choice(["true", "false"])
    elif kind.startswith("timestamp"):
        text = dice.choice(TIMES)
    else:
        text = dice.choice({"integer": INTEGERS, "bigint": WIDE}.get(kind, NUMBERS))
    # PostgreSQL itself takes seconds for much longer ones, which nothing interrupts
    return f"NULL::{kind}" if text is None or len(text) > LONGEST else f"{quoted(text)}::{kind}"
