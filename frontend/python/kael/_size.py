"""The shape of a tensor: a tuple that prints as PyTorch's."""


class Size(tuple):
    """Sizes of dims."""

    __slots__ = ()

    def numel(self):
        """The number of elements of a tensor of this shape."""
        n = 1
        for size in self:
            n *= size
        return n

    def __repr__(self):
        return f'kael.Size([{", ".join(map(str, self))}])'

    def __getitem__(self, key):
        item = tuple.__getitem__(self, key)
        return Size(item) if isinstance(key, slice) else item

    def __add__(self, other):
        return Size(tuple.__add__(self, other))

    def __reduce__(self):
        return Size, (tuple(self),)
