"""Tables as text, for a page that prints them."""

from __future__ import annotations

import pandas as pd


def show(frame: pd.DataFrame, digits: int = 2) -> None:
    """Print a table with a fixed number of digits, without negative zeros.

    Example:
        >>> show(pd.DataFrame({"ECE": [1.234, -0.001, float("nan")]}))
            ECE
        0  1.23
        1  0.00
        2     -
    """
    rounded = frame.round(digits).map(lambda v: v + 0.0 if isinstance(v, float) else v)  # -0.0 + 0.0 is 0.0
    print(rounded.to_string(float_format=f"%.{digits}f", na_rep="-"))
