"""Numbers as data: what the papers print, what this project measures, and whether the two agree.

``load`` and ``append`` read and write the rows, ``measure`` makes them from probabilities, ``compare`` puts printed
and measured numbers side by side with a verdict, ``summary`` counts the verdicts, ``gone`` the trainings that are not
stored; ``book.kit.notebook.paper_tables`` shows them.
"""

from book.kit.results.claims import ledger
from book.kit.results.csv_rows import COLUMNS, KEY, append, load, measure
from book.kit.results.kept import gone, rests_on_gone
from book.kit.results.paired_differences import load_effects
from book.kit.results.verdict_rule import Answer
from book.kit.results.verdicts import ANSWERS, answered_in_words, answers, compare, everything, summary

__all__ = [
    "ANSWERS", "Answer", "COLUMNS", "KEY", "answers", "append", "compare", "everything", "gone", "ledger", "load",
    "load_effects", "answered_in_words", "measure", "rests_on_gone", "summary",
]  # fmt: skip
