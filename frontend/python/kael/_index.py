"""Indexing with tensors, lists and masks, composed of the library's operators.

A key's integers, slices, None and ... make a view first, as in C; what is left is one index tensor
for each of some dims. The positions that they name are one linear index into those dims, which
arange(size)[index] checks and wraps, dim by dim.
"""
from . import _C


def _as_index(part):
    """A list, an array or a bool as a tensor."""
    if isinstance(part, _C.Tensor):
        tensor = part
    elif isinstance(part, (list, tuple)) and not part:
        tensor = _C.zeros(0, dtype=_C.int64)
    else:
        tensor = _C.tensor(part)
    if tensor.is_floating_point():
        raise IndexError('tensors used as indices must be long, int, byte or bool tensors')
    return tensor


def _is_mask(tensor):
    return tensor.dtype in (_C.bool, _C.uint8)


def _is_basic(part):
    if part is None or part is Ellipsis or isinstance(part, slice):
        return True
    if isinstance(part, _C.Tensor):
        return part.dim() == 0 and not part.is_floating_point() and part.dtype != _C.bool
    return not isinstance(part, (bool, list, tuple)) and hasattr(part, '__index__') \
        and not getattr(part, 'shape', ())


def _parts(key):
    """The key as a list, by PyTorch's rule of when a list is a tuple of indices."""
    return list(key) if isinstance(key, tuple) else [key]


def _dims_of(part):
    if part is None or part is Ellipsis:
        return 0
    if _is_basic(part):
        return 1
    return part.dim() if _is_mask(part) else 1


def _split(self, key):
    """The view that the basic parts make, and for each of its dims an index or None."""
    parts = [p if _is_basic(p) else _as_index(p) for p in _parts(key)]
    if sum(p is Ellipsis for p in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    taken = sum(_dims_of(p) for p in parts)
    if taken > self.dim():
        raise IndexError(f'too many indices for tensor of dimension {self.dim()}')
    if Ellipsis not in [p for p in parts if p is Ellipsis]:
        parts.append(Ellipsis)
    view, indices, dim = self, [], 0
    for part in parts:
        if part is Ellipsis:
            free = self.dim() - taken
            indices += [None] * free
            dim += free
        elif part is None:
            view = view.unsqueeze(dim)
            indices.append(None)
            dim += 1
        elif isinstance(part, slice):
            view = view[(slice(None),) * dim + (part,)]
            indices.append(None)
            dim += 1
        elif _is_basic(part):
            view = view.select(dim, int(part))
        elif _is_mask(part):
            view, found = _mask_indices(view, dim, part)
            indices += found
            dim += len(found)
        else:
            indices.append(part)
            dim += 1
    return view, indices


def _mask_indices(view, dim, mask):
    """The positions where a mask holds, an index tensor for each of its dims."""
    if mask.dim() == 0:
        view = view.unsqueeze(dim)
        return view, [_C.arange(1 if bool(mask) else 0)]
    for i, size in enumerate(mask.shape):
        if size != view.shape[dim + i]:
            raise IndexError(
                f'The shape of the mask {list(mask.shape)} at index {i} does not match the shape '
                f'of the indexed tensor {list(view.shape)} at index {dim + i}')
    nonzero = getattr(_C, 'nonzero', None)
    if nonzero is None:
        raise NotImplementedError('indexing with a mask needs nonzero, which this version of kael '
                                  'does not have; masked_fill_ and where have no such need')
    found = nonzero(mask)
    return view, [found.select(1, i) for i in range(mask.dim())]


def _broadcast_shape(shapes):
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape):
            at = rank - len(shape) + i
            if size != 1:
                if result[at] not in (1, size):
                    raise IndexError(
                        'shape mismatch: indexing tensors could not be broadcast together with '
                        'shapes ' + ', '.join(str(list(s)) for s in shapes))
                result[at] = size
    return result


def _positions(index, size):
    """A flat index within a dim: checked, and counted from the front."""
    index = index.to(_C.int64) if index.dtype != _C.int64 else index
    flat = index.reshape(-1)
    wrapped = _C._where(flat < 0, flat + size, flat)
    if size == 0 and flat.numel():
        raise IndexError('index is out of bounds for dimension with size 0')
    return wrapped


def _plan(view, indices):
    """The indexed dims moved together, their linear index, its shape, and where it goes."""
    dims = [d for d, index in enumerate(indices) if index is not None]
    together = dims == list(range(dims[0], dims[-1] + 1))
    at = dims[0] if together else 0
    if not together:
        view = view.permute(dims + [d for d in range(view.dim()) if d not in dims])
        dims = list(range(len(dims)))
    chosen = [index for index in indices if index is not None]
    shape = _broadcast_shape([tuple(i.shape) for i in chosen])
    sizes = [view.shape[d] for d in dims]
    linear = None
    for index, size in zip(chosen, sizes):
        position = _positions(index.expand(shape), size)
        if len(sizes) > 1:
            position = _C.arange(size).index_select(0, position)
        linear = position if linear is None else linear * size + position
    return view, dims, at, linear, shape


def get(self, key):
    """self[key] for keys that are not basic: a copy."""
    view, indices = _split(self, key)
    if all(index is None for index in indices):
        return view
    view, dims, at, linear, shape = _plan(view, indices)
    if len(dims) > 1:
        view = view.flatten(at, at + len(dims) - 1)
    picked = view.index_select(at, linear)
    return picked.reshape(list(view.shape[:at]) + shape + list(view.shape[at + 1:]))


def set(self, key, value):
    """self[key] = value for keys that are not basic."""
    parts = _parts(key)
    if len(parts) == 1 and not _is_basic(parts[0]):
        mask = _as_index(parts[0])
        if _is_mask(mask) and not isinstance(value, _C.Tensor) and _fits(mask, self):
            rest = (1,) * (self.dim() - mask.dim())
            self.masked_fill_(mask.to(_C.bool).reshape(tuple(mask.shape) + rest), value)
            return
        if _is_mask(mask) and isinstance(value, _C.Tensor) and value.dim() == 0 \
                and _fits(mask, self):
            rest = (1,) * (self.dim() - mask.dim())
            whole = mask.to(_C.bool).reshape(tuple(mask.shape) + rest)
            self.copy_(_C._where(whole, value.to(self.dtype), self))
            return
    put = getattr(self, 'index_put_', None)
    if put is None:
        raise NotImplementedError('writing with index tensors needs index_put_, which this version '
                                  'of kael does not have')
    view, indices = _split(self, key)
    if not isinstance(value, _C.Tensor):
        value = _C.tensor(value, dtype=self.dtype)
    dims = [d for d, index in enumerate(indices) if index is not None]
    if not dims:
        view.copy_(value)
        return
    lead = dims + [d for d in range(view.dim()) if d not in dims]
    if lead == list(range(view.dim())):
        view.index_put_(tuple(i for i in indices if i is not None), value)
        return
    raise NotImplementedError('writing with index tensors behind other dims')


def _fits(mask, self):
    return mask.dim() and tuple(mask.shape) == tuple(self.shape[:mask.dim()])
