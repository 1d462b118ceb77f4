"""The book, in a checkout: its workshop is ``book.kit``."""
