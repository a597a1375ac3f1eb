"""Medians and ratios, and the tables made of them. A comparison is a list of entries, one for each value and number of
processors:

    {"name", "title", "unit", "processors", "goal" (the most that coir's value may be),
     "go_ratio" (how many times coir's value Go's must be), "at_most_go" (how many times Go's value coir's may be);
     None: there is no such goal
     "peer_ratios": {program: how many times coir's value its value must be}
     "samples": {program: [value...]}, "medians": {program: value}, "notes": {program: text},
     "failures": {program: text}}
"""

import json
import statistics


def entry(name, goal, processors, samples, notes, failures):
    return {
        "name": name,
        "title": goal["title"],
        "unit": goal["unit"],
        "processors": processors,
        "goal": goal.get("goal", {}).get(str(processors)),
        "go_ratio": goal.get("go_ratio", {}).get(str(processors)),
        "at_most_go": goal.get("at_most_go", {}).get(str(processors)),
        "peer_ratios": goal.get("peer_ratios", {}),
        "samples": samples,
        "medians": {program: statistics.median(values) for program, values in samples.items() if values},
        "notes": notes,
        "failures": failures,
    }


def ratio(e, program):
    """How many times coir's value the program's is; None if one of them is missing or not positive."""
    ours, theirs = e["medians"].get("coir"), e["medians"].get(program)
    return theirs / ours if ours and theirs and ours > 0 and theirs > 0 else None


def least_ratio(e):
    """What ratio() to Go must be at least; None without such a goal."""
    return 1 / e["at_most_go"] if e["at_most_go"] else e["go_ratio"] or e["peer_ratios"].get("Go")


def ratio_goals(e):
    """The goals that are ratios, for the table."""
    if e["peer_ratios"]:
        return ", ".join(f"{p} {figure(least)}" for p, least in e["peer_ratios"].items())
    return figure(least_ratio(e))


def verdict(e):
    """'met' if the ratio to Go is (or, where there is none, the figure itself); 'behind' otherwise; '' without a goal.
    Where there are goals for several peers, all of them and the figure must be met: else it says what is not."""
    ours = e["medians"].get("coir")
    if ours is None:
        return ""
    if e["peer_ratios"]:
        return _verdict_of_all(e, ours)
    to_go, least = ratio(e, "Go"), least_ratio(e)
    if to_go is not None and least is not None and to_go >= least:
        return "met"
    if e["goal"] is None:
        return "behind" if to_go is not None and least is not None else ""
    if ours > e["goal"]:
        return "behind"
    return "met" if to_go is None or least is None else "behind, figure met"


def _verdict_of_all(e, ours):
    known = {p: r for p in e["peer_ratios"] if (r := ratio(e, p)) is not None}
    behind = [p for p, r in known.items() if r < e["peer_ratios"][p]]
    if e["goal"] is not None and ours > e["goal"]:
        behind.append("the figure")
    if behind:
        return "behind: " + ", ".join(behind)
    return "met" if known or e["goal"] is not None else ""


def figure(value):
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def spread(values):
    """Half of the range, as a percentage of the median."""
    middle = statistics.median(values) if values else 0
    return f"{(max(values) - min(values)) / 2 / middle:.0%}" if middle else "-"


def table(entries, programs):
    """Rows of cells, the head first."""
    peers = [p for p in programs if p != "coir"]
    head = ["row", "P", "unit", "coir", "±", *peers, *(f"{p} / coir" for p in peers), "goal Go / coir", "goal", ""]
    rows = [head]
    for e in entries:
        cells = [e["name"], str(e["processors"]), e["unit"], _median(e, "coir"), spread(e["samples"].get("coir", []))]
        cells += [_median(e, p) for p in peers]
        cells += [figure(ratio(e, p)) for p in peers]
        cells += [ratio_goals(e), figure(e["goal"]), verdict(e)]
        rows.append(cells)
    return rows


def _median(e, program):
    return "failed" if program in e["failures"] else figure(e["medians"].get(program))


def as_text(rows):
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = []
    for n, r in enumerate(rows):
        cells = [c.ljust(w) if i in (0, 2, len(r) - 1) else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))]
        lines.append("  ".join(cells).rstrip())
        if n == 0:
            lines.append("  ".join("-" * w for w in widths))
    return "\n".join(lines)


def as_markdown(rows, entries, machine, rounds, chart):
    aligned = ["---" if i in (0, 2, len(rows[0]) - 1) else "--:" for i in range(len(rows[0]))]
    out = ["# coir and its peers", ""]
    out += [f"- {key}: {value}" for key, value in machine.items()]
    out += [f"- medians of {rounds} rounds (fewer of the rows that take long), the programs in turn in each; ± is half of coir's range", ""]
    out += [f"![Times as a multiple of coir's]({chart})", ""]
    out += ["| " + " | ".join(r) + " |" for r in (rows[0], aligned, *rows[1:])]
    remarks = _remarks(entries)
    if remarks:
        out += ["", "Notes:", "", *remarks]
    return "\n".join(out) + "\n"


def _remarks(entries):
    """A line for each note and failure, those that hold for several values together."""
    subjects = {}
    for e in entries:
        for kind in ("notes", "failures"):
            for program, text in e[kind].items():
                if text:
                    where = subjects.setdefault(f"{program} at P {e['processors']}, {text}", [])
                    where.append(e["name"])
    return [f"- {text}: {', '.join(where)}" for text, where in subjects.items()]


def as_json(entries, machine, rounds):
    return json.dumps({"machine": machine, "rounds": rounds, "entries": entries}, indent=1) + "\n"
