"""Extensions of Sphinx: what the pages of the book compute when they are built."""
