"""The workshop of the book: ``results`` are its numbers and verdicts, ``notebook`` is what its chapters share, and
``sphinx`` are the extensions that build its pages. The package ``calibkit`` imports nothing of it.
"""
