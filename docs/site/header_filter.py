#!/usr/bin/env python3
"""Doxygen's view of a public header: the comment that opens the file becomes the documentation of the file, and what
looks like a tag in a comment (task<R>) is text. Lines keep their numbers. Usage: header_filter.py HEADER"""
import re
import sys


def prose(text):
    """Escapes what Doxygen would take for a tag or a link, but not in `code`."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"(?<!\\)([<#@]|(?<!\w)::(?=\w))", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def opening_line(text):
    # Examples are set in by three blanks; Markdown wants four more than the text for code.
    return "    " + text if text.startswith("   ") else prose(text.removeprefix(" "))


with open(sys.argv[1], encoding="utf-8") as header:
    lines = header.read().split("\n")

# Base classes in detail whose members are those of public classes: here they are in coir.
bases = r"(send_members|recv_members|byte_stream|io_owner)\b"
whole = "namespace coir::inline COIR_ABI::detail {" in lines
for number, line in enumerate(lines):
    if re.match("class " + bases, line):
        first = number
        while lines[first - 1].startswith(("///", "template <")):
            first -= 1
        lines[first - 1] += "} namespace coir {" if whole else "}"
        lines[lines.index("};", number)] += "} namespace coir::detail {" if whole else " namespace detail {"
    lines[number] = re.sub("detail::" + bases, r"\1", lines[number])
for number, line in enumerate(lines):  # friends that the reader does not see
    if re.match(r"\s*friend .*detail::", line):
        lines[number] = ""
        if re.match(r"\s*template <.*>$", lines[number - 1]):
            lines[number - 1] = ""
end = next((number for number, line in enumerate(lines) if not line.startswith("//")), len(lines))
if end:
    sys.stdout.write("/** @file\n")  # in place of the line of #pragma once
for number, line in enumerate(lines):
    if number < end:
        sys.stdout.write(opening_line(line[2:]) + (" */" if number + 1 == end else "") + "\n")
    elif not (end and line == "#pragma once"):
        if comment := re.match(r"(.*?///<?)(.*)$", line):
            line = comment[1] + prose(comment[2])
        line = line.replace("coir::inline COIR_ABI", "coir")  # programs do not write it
        sys.stdout.write(line + ("\n" if number + 1 < len(lines) else ""))
