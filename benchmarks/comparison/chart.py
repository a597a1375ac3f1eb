"""The comparison as a picture: each peer's value as a multiple of coir's, on a logarithmic scale, a panel for each
number of processors. SVG written by hand, so that nothing has to be installed."""

import math
from xml.sax.saxutils import escape

from . import report

COLOURS = {"Go": "#1f9bb8", "Boost.Fiber": "#e08e2b", "TBB": "#c2566b", "std": "#8fa63a"}
OTHER_COLOUR = "#8a6bb8"
INK, FAINT, RULE = "#22303c", "#6b7a87", "#dfe5ea"
BAR, GAP, PANEL, MARGIN, TOP = 9, 2, 400, 26, 92
LABELS = 196  # width of the names and of coir's own figures, at the left of each panel
FONT = "font-family='DejaVu Sans, Verdana, Helvetica, sans-serif'"


def svg(entries, programs, machine):
    entries = [e for e in entries if not e["name"].endswith("_max")]  # a single sample of many each: chance
    peers = [p for p in programs if p != "coir"]
    counts = sorted({e["processors"] for e in entries})
    names = list(dict.fromkeys(e["name"] for e in entries))
    shown = {n: [p for p in peers if any(_has(e, p) for e in entries if e["name"] == n)] for n in names}
    tops, bottom = {}, TOP
    for n in names:
        tops[n] = bottom
        bottom += max(len(shown[n]), 1) * (BAR + GAP) + 9
    ratios = [r for e in entries for p in peers if (r := report.ratio(e, p))]
    low = min([0.5, *ratios])
    high = max([10.0, *ratios]) * 1.6  # room for the figure behind the longest bar
    panel_width = LABELS + PANEL
    width = MARGIN * 2 + panel_width * len(counts) + MARGIN * (len(counts) - 1)
    height = bottom + 62

    out = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>",
           f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
           _text(MARGIN, 32, "Cost as a multiple of coir's", 17, INK, weight="bold"),
           _text(MARGIN + 282, 32, "to the right of the line the peer costs more; logarithmic", 11, FAINT)]
    out += _legend(width - MARGIN, 32, peers)
    for n, processors in enumerate(counts):
        left = MARGIN + n * (panel_width + MARGIN)
        scale = _Scale(left + LABELS, PANEL, low, high)
        out.append(_text(left, 62, f"{processors} processor{'s' if processors > 1 else ''}", 13, INK, weight="bold"))
        out += _grid(scale, TOP - 6, bottom)
        for name in names:
            found = [e for e in entries if e["name"] == name and e["processors"] == processors]
            if found:
                out += _row(found[0], shown[name], scale, left, tops[name])
    shown_facts = ("CPU", "kernel", "compiler", "Go", "date")
    facts = ", ".join(machine[k] for k in shown_facts if machine.get(k, "unknown") != "unknown")
    out.append(_text(MARGIN, height - 16, f"{machine.get('cores', '?')} cores of {facts}", 10, FAINT))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _has(e, program):
    return program in e["medians"] or program in e["failures"]


class _Scale:
    """Logarithmic, from ratio to x."""

    def __init__(self, left, width, low, high):
        self.low, self.high = math.log10(low), math.log10(high)
        self.left, self.width = left, width

    def __call__(self, ratio):
        return self.left + self.width * (math.log10(ratio) - self.low) / (self.high - self.low)

    def ticks(self):
        for decade in range(math.floor(self.low), math.ceil(self.high) + 1):
            for digit in (1, 2, 5):
                tick = digit * 10.0**decade
                if self.low <= math.log10(tick) <= self.high:
                    yield tick


def _row(e, peers, scale, left, y):
    middle = y + max(len(peers), 1) * (BAR + GAP) / 2 + 4
    ours = e["medians"].get("coir")
    unit = "" if e["unit"] == "switches" else f" {e['unit']}"
    own = "failed" if "coir" in e["failures"] else report.figure(ours) + unit
    out = [_text(left, middle, e["name"], 11.5, INK), _text(left + LABELS - 12, middle, own, 11, FAINT, anchor="end")]
    one = scale(1)
    least = report.least_ratio(e)
    goal = scale(least) if least and "Go" in peers else None
    top = y - 2
    for p in peers:
        ratio = report.ratio(e, p)
        if ratio:
            x = scale(ratio)
            behind = max(one, x) + 5
            if p == "Go" and goal and one < goal and 0 < goal - x < 44:  # the mark stands where the figure would
                behind = goal + 5
            length = max(abs(x - one), 1)
            out.append(f"<rect x='{min(one, x):.1f}' y='{y:.1f}' width='{length:.1f}' height='{BAR}' rx='1.5' "
                       f"fill='{_colour(p)}'/>")
            out.append(_text(behind, y + BAR - 0.5, f"{ratio:.2g}×" if ratio < 100 else f"{ratio:.0f}×", 9.5, FAINT))
        elif p in e["failures"]:
            out.append(_text(one + 5, y + BAR - 0.5, "failed", 9.5, FAINT))
        y += BAR + GAP
    if goal:
        out.append(_line(goal, top, top + BAR + 4, INK, 2))
    return out


def _grid(scale, top, bottom):
    out = []
    for tick in scale.ticks():
        x = scale(tick)
        colour, thickness = (INK, 1.2) if tick == 1 else (RULE, 1)
        out.append(_line(x, top, bottom, colour, thickness))
        label = "coir" if tick == 1 else f"{tick:g}×"
        out.append(_text(x, top - 6, label, 9.5, INK if tick == 1 else FAINT, anchor="middle"))
    return out


def _legend(right, y, peers):
    out, x = [], right
    for p in reversed(peers):
        x -= 8 * len(p) + 26
        out.append(f"<rect x='{x}' y='{y - 10}' width='12' height='11' rx='2' fill='{_colour(p)}'/>")
        out.append(_text(x + 17, y, p, 11.5, INK))
    if "Go" in peers:
        x -= 118
        out.append(_line(x, y - 11, y + 2, INK, 2))
        out.append(_text(x + 7, y, "goal against Go", 11.5, INK))
    return out


def _line(x, top, bottom, colour, width):
    """A rectangle, for renderers that let a stroke leak into what follows."""
    return f"<rect x='{x - width / 2:.1f}' y='{top:.1f}' width='{width}' height='{bottom - top:.1f}' fill='{colour}'/>"


def _colour(program):
    return COLOURS.get(program, OTHER_COLOUR)


def _text(x, y, content, size, colour, anchor="start", weight="normal"):
    return (f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' font-weight='{weight}' fill='{colour}' "
            f"text-anchor='{anchor}'>{escape(content)}</text>")
