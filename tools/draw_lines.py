"""Draw sentences by a seed, for someone to grade: of docstrings, of pages, and of help texts and messages, as many of each.

python -m tools.draw_lines 43 --count 100
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from typing import Final

import click
from tools.check_prose import read_texts

_END: Final = re.compile(r"(?<=[.:;?!])\s+(?=[A-Z`])|\n\s*\n|\n\s*\w+: ")
_KINDS: Final = {"docs": "documentation", "docstrings": "docstrings", "help": "help and messages"}
_LEAST_WORDS: Final = 6


@click.command()
@click.argument("seed", type=int)
@click.option("--count", type=click.IntRange(1), default=100, show_default=True, help="Number of sentences of each kind.")
def main(seed: int, count: int) -> None:
    """Print sentences with their places."""
    sentences: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for where, place, text in read_texts():
        kind = where if where in _KINDS else "help"
        for sentence in _END.split(text):
            plain = " ".join(sentence.split())
            if len(plain.split()) >= _LEAST_WORDS:
                sentences[kind].add((place, plain))
    for kind, title in _KINDS.items():
        click.echo(f"# {title}")
        for place, sentence in random.Random(seed).sample(sorted(sentences[kind]), count):
            click.echo(f"{place}: {sentence}")


if __name__ == "__main__":
    main()
