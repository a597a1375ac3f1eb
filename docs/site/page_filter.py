#!/usr/bin/env python3
"""Doxygen's view of a page. The pages are written for Git hosts, which give each heading an anchor. Here each heading
gets that anchor behind the name of its page, as Doxygen wants labels that differ in the whole site, and links are
spelled alike. A link to a file that is no page of the site becomes its text. Usage: page_filter.py PAGE"""
import pathlib
import re
import sys

page = pathlib.Path(sys.argv[1])


def anchor(heading):
    """As Git hosts make it: lower case, blanks to hyphens, punctuation gone."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def link(match):
    text, target = match[1], match[2]
    if re.match(r"[a-z]+:", target):
        return match[0]
    path, _, label = target.partition("#")
    if path and not path.endswith((".md", ".svg")):
        return text
    if label:
        return f"[{text}](#{pathlib.Path(path).stem or page.stem}-{label})"
    return match[0]


fenced = False
with page.open(encoding="utf-8") as text:
    for line in text:
        if line.startswith("```"):
            fenced = not fenced
            line = re.sub(r"^```(\w+)", r"```{.\1}", line)
        elif not fenced:
            line = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", link, line)
            if heading := re.match(r"^(##+) (.*?)\s*$", line):
                line = f"{heading[1]} {heading[2]} {{#{page.stem}-{anchor(heading[2])}}}\n"
        sys.stdout.write(line)
