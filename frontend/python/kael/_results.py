"""Results of functions that give several tensors, with names."""
from typing import NamedTuple

from ._C import Tensor


class ValuesAndIndices(NamedTuple):
    """Elements along a dim, and where they stand."""

    values: Tensor
    indices: Tensor
