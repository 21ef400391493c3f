"""Functions and methods that are composed of others."""
from . import _C
from ._C import Tensor

_BOOL = type(True)


def where(condition, self=None, other=None, *, input=None):
    """condition ? input : other, broadcast. Numbers may stand for tensors."""
    self = input if self is None else self
    if isinstance(condition, Tensor) and self is None and other is None:
        return nonzero_tuple(condition)
    if not isinstance(self, Tensor) and not isinstance(other, Tensor):
        self = _C.tensor(self)
    if not isinstance(self, Tensor):
        self = _number_beside(self, other)
    if not isinstance(other, Tensor):
        other = _number_beside(other, self)
    return _C._where(condition, self, other)


def _number_beside(number, tensor):
    """A 0-d tensor that promotes beside `tensor` as the number would."""
    if tensor.is_floating_point() or isinstance(number, bool):
        dtype = tensor.dtype
    elif isinstance(number, float):
        dtype = _C.float32
    else:
        dtype = _C.int64 if tensor.dtype == _C.bool else tensor.dtype
    return _C.full((), number, dtype=dtype)


def nonzero_tuple(condition):
    """The positions where the elements are not zero, a tensor for each dim."""
    return _C.nonzero(condition).unbind(1)


def numel(input):
    """The number of elements."""
    return input.numel()


def is_tensor(obj):
    """Whether the object is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input):
    """Whether the dtype is floating."""
    return input.is_floating_point()


def clone(input, *, memory_format=None):
    """A copy with a storage of its own: contiguous, offset 0."""
    return input.clone()


def as_tensor(data, dtype=None, device=None):
    """The data as a tensor, over the same memory where it is a tensor or an array already."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if hasattr(data, '__array_interface__') and getattr(data, 'shape', None) is not None:
        made = _C.from_numpy(data)
        return made if dtype is None else made.to(dtype)
    return _C.tensor(data, dtype=dtype)


def stack(tensors, dim=0):
    """Tensors of one shape as the slices of a new dim."""
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError('stack expects a non-empty TensorList')
    first = tensors[0]
    for i, tensor in enumerate(tensors):
        if tensor.shape != first.shape:
            raise RuntimeError(f'stack expects each tensor to be equal size, but got '
                               f'{list(first.shape)} at entry 0 and {list(tensor.shape)} at entry {i}')
    if dim < 0:
        dim += first.dim() + 1
    return _C.cat([t.unsqueeze(dim) for t in tensors], dim)


def equal(input, other):
    """Whether both have one shape and the same elements."""
    return input.shape == other.shape and bool((input == other).all())


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where |input - other| <= atol + rtol * |other|, or both are equal."""
    if input.dtype != other.dtype:
        raise RuntimeError(f'{input.dtype} did not match {other.dtype}')
    close = input == other
    if equal_nan:
        close = close | ((input != input) & (other != other))
    if not input.is_floating_point():
        input, other = input.double(), other.double()
    allowed = other.abs() * rtol + atol
    apart = (input - other).abs()
    finite = apart < float('inf')  # false for NaN
    return close | (finite & (apart <= allowed))


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether isclose holds everywhere."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def _spread(fold, input, dim, unbiased, keepdim, correction):
    if isinstance(dim, _BOOL):  # var(unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return fold(input, dim, correction=correction, keepdim=keepdim)


def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Mean squared distance from the mean, over count - correction (1)."""
    return _spread(_C.var, input, dim, unbiased, keepdim, correction)


def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """The square root of var."""
    return _spread(_C.std, input, dim, unbiased, keepdim, correction)


def norm(input, p='fro', dim=None, keepdim=False, dtype=None):
    """The p-norm: (sum of |x|^p)^(1/p); 2 unless p is given."""
    if p == 'nuc':
        raise NotImplementedError('the nuclear norm is not part of this version of kael')
    if dtype is not None:
        input = input.to(dtype)
    return _C.norm(input, 2.0 if p in ('fro', None) else p, dim, keepdim)


# --- Methods --------------------------------------------------------------------------------------

class UntypedStorage:
    """The bytes behind a tensor."""

    def __init__(self, tensor):
        self._tensor = tensor

    def data_ptr(self):
        """The address of the first byte."""
        tensor = self._tensor
        return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()

    def nbytes(self):
        """The number of bytes."""
        return self._tensor._storage_nbytes()

    size = __len__ = nbytes


def _untyped_storage(self):
    """The bytes behind the tensor."""
    return UntypedStorage(self)


def _expand_as(self, other):
    """A view with the shape of `other`, by repeated dims of size 1."""
    return self.expand(other.shape)


def _view_as(self, other):
    """view(other.shape)."""
    return self.view(other.shape)


def _reshape_as(self, other):
    """reshape(other.shape)."""
    return self.reshape(other.shape)


def _type_as(self, other):
    """The elements in the dtype of `other`."""
    return self.to(other.dtype)


def _where_method(self, condition, other):
    """condition ? self : other."""
    return where(condition, self, other)


def _format(self, spec):
    if self.dim() == 0:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def _contains(self, element):
    return bool((self == element).any())


def _rebuild(data, dtype, shape, requires_grad):
    flat = _C._from_bytes(data, dtype, tuple(shape))
    return flat.requires_grad_() if requires_grad else flat


def _reduce_ex(self, protocol):
    if not self.is_leaf:
        raise RuntimeError('Only Tensors created explicitly by the user (graph leaves) support the '
                           'deepcopy protocol and pickling; use detach()')
    return _rebuild, (_C._to_bytes(self), self.dtype, tuple(self.shape), self.requires_grad)


def _deepcopy(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError('Only Tensors created explicitly by the user (graph leaves) support the '
                           'deepcopy protocol at the moment.')
    copied = self.detach().clone()
    if self.requires_grad:
        copied.requires_grad_()
    if self.grad is not None:
        copied.grad = self.grad.detach().clone()
    memo[id(self)] = copied
    return copied


def _copy(self):
    alias = self.detach()
    if self.requires_grad and self.is_leaf:
        alias.requires_grad_()
    return alias


def _new(make, what):
    def method(self, *size, dtype=None, requires_grad=False, device=None):
        return make(*size, dtype=self.dtype if dtype is None else dtype,
                    requires_grad=requires_grad)
    method.__doc__ = f'{what} of the given sizes, in the tensor\'s dtype.'
    return method


def _new_full(self, size, fill_value, *, dtype=None, requires_grad=False, device=None):
    """One number everywhere, in the tensor's dtype."""
    return _C.full(size, fill_value, dtype=self.dtype if dtype is None else dtype,
                   requires_grad=requires_grad)


def _new_tensor(self, data, *, dtype=None, requires_grad=False, device=None):
    """A copy of data, in the tensor's dtype."""
    return _C.tensor(data, dtype=self.dtype if dtype is None else dtype,
                     requires_grad=requires_grad)



_METHODS = {
    'untyped_storage': _untyped_storage, 'expand_as': _expand_as, 'view_as': _view_as,
    'reshape_as': _reshape_as, 'type_as': _type_as, 'where': _where_method,
    '__format__': _format, '__contains__': _contains, '__reduce_ex__': _reduce_ex,
    '__deepcopy__': _deepcopy, '__copy__': _copy, 'new_zeros': _new(_C.zeros, 'Zeros'),
    'new_ones': _new(_C.ones, 'Ones'), 'new_empty': _new(_C.empty, 'A tensor to be written,'), 'new_full': _new_full,
    'new_tensor': _new_tensor, 'equal': equal, 'isclose': isclose, 'allclose': allclose,
    'var': var, 'std': std, 'norm': norm,
}
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, _function)
