"""A small check that LaTeX is well formed, where there is no TeX to compile it."""

import re


def problems(text: str) -> list[str]:
    """Return what is wrong with a table: braces, environments, dollars, columns, unknown letters."""
    found = []
    depth, bare = 0, re.sub(r"\\[{}$&%#_\\]", "", text)
    for letter in bare:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth < 0:
            found.append("a brace closes what is not open")
            break
    if depth > 0:
        found.append("a brace stays open")
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    if begun != ended[::-1]:
        found.append(f"environments {begun} end as {ended}")
    if bare.count("$") % 2:
        found.append("a dollar is missing")
    letters = sorted({letter for letter in text if ord(letter) > 126})
    if letters:
        found.append(f"letters {letters}")
    outside = re.sub(r"\$[^$]*\$", "", bare)
    if re.search(r"[_^#]|(?<!\\)%", outside):
        found.append("a special letter is not escaped")
    columns = re.search(r"\\begin{tabular}{([lr]+)}", text)
    for row in re.findall(r"^(.*) \\\\$", text, flags=re.MULTILINE):
        count = len(re.findall(r"(?<!\\)&", row)) + 1
        if columns is None or count != len(columns[1]):
            found.append(f"a row has {count} cells: {row}")
    return found
