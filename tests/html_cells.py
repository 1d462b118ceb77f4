"""The tables of a piece of HTML."""

from html.parser import HTMLParser


class Cells(HTMLParser):
    """The tables of a page as lists of rows of cell texts; a span over columns counts as often as it is wide."""

    def __init__(self, text: str):
        super().__init__()
        self.tables, self.open = [], []
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "img", "input", "meta"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1] += [""] * int(dict(attrs).get("colspan", 1))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data
